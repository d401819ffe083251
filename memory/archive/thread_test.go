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
	before := memorytest.Must(s.Events(t.Context(), thread, 0, 0))(t)
	th := memorytest.Must(s.Thread(t.Context(), user, thread))(t)
	for _, v := range []any{&th, &before} {
		text := memorytest.Must(json.Marshal(v))(t)
		again := reflect.New(reflect.TypeOf(v).Elem()).Interface()
		ok(t, json.Unmarshal(text, again))
		second := memorytest.Must(json.Marshal(again))(t)
		same(t, "round trip", string(second), string(text))
	}
	records := memorytest.Must(s.ExportThreads(t.Context(), memory.ExportRequest{ThreadID: thread, Below: true}))(t)
	for _, r := range records {
		session := memorytest.Must(archive.Session(r))(t)
		text := memorytest.Must(json.Marshal(session))(t)
		again, lost, err := sessionfile.ParseSession(text)
		ok(t, err)
		same(t, "lost", lost, 0)
		have := memorytest.Must(json.Marshal(again.Messages))(t)
		want := memorytest.Must(json.Marshal(r.Messages))(t)
		same(t, "messages", string(have), string(want))
		same(t, "thread", again.ThreadID, r.Thread.ID)
	}
	send(t, s, user, "s1", "default", "more")
	answer(t, s, thread, "")
	after := memorytest.Must(s.Events(t.Context(), thread, 0, 0))(t)
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
		th := memorytest.Must(s.Thread(t.Context(), user, id))(t)
		same(t, "kind", th.Kind, kind)
	}
	all := memorytest.Must(s.Threads(t.Context(), memory.ThreadFilter{UserID: user, All: true}))(t)
	same(t, "all", len(all), 2)
	memorytest.Must(archive.Delete(t.Context(), s, owner, "s1"))(t)
	for _, id := range []string{main, sub, "s9/default"} {
		_, err := s.Thread(t.Context(), user, id)
		same(t, id, agent.CodeOf(err), agent.CodeNotFound)
	}
}
