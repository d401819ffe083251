package archive_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/archive"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/sessionfile"
)

// TestRow45_ThreadsRoundTripJSON, whole and in parts; a log only grows.
func TestRow45_ThreadsRoundTripJSON(t *testing.T) {
	s := store(t, memorytest.NewClock())
	thread := send(t, s, user, "s1", "default", "hello")
	answer(t, s, thread, "general")
	before, err := s.Events(t.Context(), thread, 0, 0)
	ok(t, err)
	th, err := s.Thread(t.Context(), user, thread)
	ok(t, err)
	for _, v := range []any{&th, &before} {
		text, err := json.Marshal(v)
		ok(t, err)
		again := reflect.New(reflect.TypeOf(v).Elem()).Interface()
		ok(t, json.Unmarshal(text, again))
		second, err := json.Marshal(again)
		ok(t, err)
		same(t, "round trip", string(second), string(text))
	}
	records, err := s.ExportThreads(t.Context(), memory.ExportRequest{ThreadID: thread, Below: true})
	ok(t, err)
	for _, r := range records {
		session, err := archive.Session(r)
		ok(t, err)
		text, err := json.Marshal(session)
		ok(t, err)
		again, lost, err := sessionfile.ParseSession(text)
		ok(t, err)
		same(t, "lost", lost, 0)
		have, err := json.Marshal(again.Messages)
		ok(t, err)
		want, err := json.Marshal(r.Messages)
		ok(t, err)
		same(t, "messages", string(have), string(want))
		same(t, "thread", again.ThreadID, r.Thread.ID)
	}
	send(t, s, user, "s1", "default", "more")
	answer(t, s, thread, "")
	after, err := s.Events(t.Context(), thread, 0, 0)
	ok(t, err)
	same(t, "what was logged", after[:len(before)], before)
	if len(after) <= len(before) {
		t.Error("the log did not grow")
	}
}

// TestRow46_OneStoreForMainAndSubThreads: made, found, listed, deleted; what is
// missing is none.
func TestRow46_OneStoreForMainAndSubThreads(t *testing.T) {
	s := store(t, memorytest.NewClock())
	main := send(t, s, user, "s1", "default", "hello")
	sub := answer(t, s, main, "general")
	for id, kind := range map[string]agent.ThreadKind{main: agent.KindMain, sub: agent.KindSubAgent} {
		th, err := s.Thread(t.Context(), user, id)
		ok(t, err)
		same(t, "kind", th.Kind, kind)
	}
	all, err := s.Threads(t.Context(), memory.ThreadFilter{UserID: user, All: true})
	ok(t, err)
	same(t, "all", len(all), 2)
	_, err = archive.Delete(t.Context(), s, owner, "s1")
	ok(t, err)
	for _, id := range []string{main, sub, "s9/default"} {
		_, err := s.Thread(t.Context(), user, id)
		same(t, id, agent.CodeOf(err), agent.CodeNotFound)
	}
}
