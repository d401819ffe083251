package httpapi_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
)

// browser is a client with the cookie of a session.
func (b *bench) browser() []*http.Cookie {
	b.t.Helper()
	r := b.request(http.MethodPost, "/api/v1/login", map[string]string{"token": token})
	r.Header.Del("Authorization")
	res, err := b.do.RoundTrip(r)
	require.NoError(b.t, err)
	require.NoError(b.t, res.Body.Close())
	require.NotEmpty(b.t, res.Cookies())
	return res.Cookies()
}

// A browser may hold three streams open: to a fourth it is said that it is busy, until
// one of them is gone. It can ask for what there is meanwhile, and programs with a
// token are not counted.
func TestBrowserHasFewStreams(t *testing.T) {
	b := newBench(t)
	b.StartWorker()
	stream := func(cookies []*http.Cookie) (first string, hang func()) {
		t.Helper()
		r := b.request(http.MethodGet, "/api/v1/follow?threads=true", nil)
		if cookies != nil {
			r.Header.Del("Authorization")
		}
		for _, c := range cookies {
			r.AddCookie(c)
		}
		res, err := b.do.RoundTrip(r) //nolint:bodyclose // by whom the stream is given to
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, res.StatusCode)
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				return name, func() { _ = res.Body.Close() }
			}
		}
		return "", func() {}
	}
	b.ends(b.say("one", "script: say ok"))
	mine := b.browser()
	time.Sleep(time.Second) // sessions of one token that begin in one second are the same
	another := b.browser()
	var hang []func()
	for range 3 {
		first, h := stream(mine)
		require.Contains(t, []string{"thread", "health"}, first)
		hang = append(hang, h)
	}
	first, _ := stream(mine)
	require.Equal(t, "busy", first)
	first, h := stream(another)
	require.Contains(t, []string{"thread", "health"}, first)
	hang = append(hang, h)
	first, h = stream(nil)
	require.Contains(t, []string{"thread", "health"}, first)
	hang = append(hang, h)
	hang[0]()
	first, h = stream(mine)
	require.Contains(t, []string{"thread", "health"}, first, "the first one's place is free")
	for _, h := range append(hang[1:], h) {
		h()
	}
}

// What there is can be had in one answer, that of the list since a time, and goes on
// where the last one ended.
func TestFollowOnce(t *testing.T) {
	b := newBench(t)
	b.StartWorker()
	one := b.say("one", "script: say first")
	b.ends(one)
	ask := func(from, since string) (events []sse, cursor, listed string) {
		t.Helper()
		q := url.Values{"threads": {"true"}, "once": {"true"}, "thread": {one.ThreadID}, "from": {from}}
		if since != "" {
			q.Set("since", since)
		}
		cursor, listed = from, since
		for _, e := range b.get("/api/v1/follow?" + q.Encode()).is(http.StatusOK).events() {
			switch e.name {
			case "update":
				var u spool.Update
				require.NoError(t, json.Unmarshal([]byte(e.data), &u))
				cursor = u.Cursor
			case "listed":
				var l struct{ Since string }
				require.NoError(t, json.Unmarshal([]byte(e.data), &l))
				listed = l.Since
			}
			events = append(events, e)
		}
		require.Equal(t, "end", events[len(events)-1].name)
		return events, cursor, listed
	}
	count := func(events []sse, name string) (n int) {
		for _, e := range events {
			if e.name == name {
				n++
			}
		}
		return n
	}
	events, cursor, since := ask("0", "")
	all, err := b.Store.Events(b.Ctx(), one.ThreadID, 0, 0)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, count(events, "update"), len(all))
	assert.Equal(t, 1, count(events, "thread"))
	require.NotEmpty(t, since)
	events, cursor, since = ask(cursor, since)
	assert.Zero(t, count(events, "update"))
	b.ends(b.say("one", "script: say second"))
	b.ends(b.say("two", "script: say third"))
	events, _, _ = ask(cursor, since)
	assert.Positive(t, count(events, "update"))
	assert.Equal(t, 2, count(events, "thread"))
}

// A page of messages can have the calls and tasks that belong to it.
func TestMessagesWithTheirCalls(t *testing.T) {
	b := newBench(t)
	b.StartWorker()
	r := b.say("one", "script: call ls {} ;; call ls {} ;; say done")
	b.ends(r)
	path := "/api/v1/threads/" + id(r.ThreadID)
	var view spool.View
	b.get(path).is(http.StatusOK).into(&view)
	require.Len(t, view.ToolCalls, 2)
	var page struct {
		Messages  []agent.Message
		ToolCalls []agent.ToolCall
		Tasks     []agent.Task
	}
	// system, user and the first round
	first := view.Messages[len(view.Messages)-3].Seq
	b.get(path + "/messages?calls=true&before=" + number(first)).is(http.StatusOK).into(&page)
	require.Len(t, page.ToolCalls, 1)
	require.Equal(t, view.ToolCalls[0], page.ToolCalls[0])
	require.Equal(t, view.Tasks[:1], page.Tasks)
	b.get(path + "?last=2").is(http.StatusOK).into(&view)
	require.Len(t, view.Messages, 2)
	require.Len(t, view.ToolCalls, 1)
	require.Len(t, view.Tasks, 1)
	require.EqualValues(t, 2, view.Thread.ToolCallCount)
}

func number(n int64) string { raw, _ := json.Marshal(n); return string(raw) }
