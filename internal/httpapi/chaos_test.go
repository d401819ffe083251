package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	"github.com/spool-agents/spool/internal/remote"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
)

// reader is an event source: it comes back with the last id, and checks that
// nothing is missing and nothing comes twice.
type reader struct {
	t       *testing.T
	url     string
	lastID  string
	seq     int64
	events  []agent.Event
	texts   map[string]*written // by message
	saved   map[string]string
	streams int // how often it had to come back
	ended   bool
}

type written struct {
	attempt int
	text    string
}

// read reads one stream until it is cut or ends; cut is called for each update.
func (r *reader) read(ctx context.Context, cut func() bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	require.NoError(r.t, err)
	req.Header.Set("Authorization", "Bearer "+tt.WebToken)
	if r.lastID != "" {
		req.Header.Set("Last-Event-ID", r.lastID)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return
	}
	defer res.Body.Close()
	require.Equal(r.t, http.StatusOK, res.StatusCode)
	r.streams++
	lines := bufio.NewReader(res.Body)
	var e sse
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		field, value, _ := strings.Cut(strings.TrimRight(line, "\n"), ": ")
		switch {
		case field == "id":
			e.id = value
		case field == "event":
			e.name = value
		case field == "data":
			e.data = value
		case line == "\n":
			if e.name == "end" {
				r.ended = true
				return
			}
			if e.name == "update" {
				r.lastID = e.id
				r.update([]byte(e.data))
				if cut() {
					return
				}
			}
			e = sse{}
		}
	}
}

func (r *reader) update(data []byte) {
	var u spool.Update
	require.NoError(r.t, json.Unmarshal(data, &u))
	require.Equal(r.t, r.lastID, u.Cursor)
	if u.Event != nil {
		require.Equal(r.t, r.seq+1, u.Event.Seq, "no event is missing, none comes twice")
		r.seq = u.Event.Seq
		r.events = append(r.events, *u.Event)
	}
	for _, m := range u.Messages {
		r.saved[m.ID] = m.Content.String()
	}
	if x := u.Text; x != nil && x.Text != "" {
		w := r.texts[x.MessageID]
		if w == nil || w.attempt != x.Attempt {
			w = &written{attempt: x.Attempt}
			r.texts[x.MessageID] = w
		}
		require.Equal(r.t, len(w.text), x.Offset, "no text is missing, none comes twice")
		w.text += x.Text
	}
}

// F1, rows 102, 103: a reader whose stream is cut, whose server and whose worker are
// killed with kill -9 in mid-stream, again and again, and that comes back with
// Last-Event-ID, sees each event and each piece of text once. So does a client that
// follows the whole tree. The turn ends as without all that.
func TestFault_F1_StreamsSurviveKills(t *testing.T) {
	t.Parallel()
	s := tt.New(t)
	worker := s.StartWorker("SPOOL_MAX_EVENTS=30")
	web := s.StartWeb()
	c, err := remote.New(web.URL+"/", tt.WebToken)
	require.NoError(t, err)
	words := strings.Repeat("word ", 30)
	child := script.Script("slow 20ms "+script.Call("calculator", map[string]any{"expression": "6*7"}), "slow 30ms say "+words+"of the child")
	text := script.Script("slow 20ms "+script.Call("calculator", map[string]any{"expression": "1+1"}), script.Task("researcher", child), "slow 30ms say "+words+"of the parent")
	sent, err := c.Send(t.Context(), memory.SendRequest{SessionID: s.Session("f1"), Content: agent.Text(text)})
	require.NoError(t, err)

	rnd := rand.New(rand.NewSource(tt.Seed(t)))
	ctx, cancel := context.WithTimeout(t.Context(), tt.Patience)
	defer cancel()
	done := make(chan struct{})
	tree := map[string]int64{} // the last seq of each thread
	treeText := map[string]*written{}
	followed := make(chan error, 1)
	go func() {
		followed <- c.Follow(ctx, sent.ThreadID, "", spool.FollowOptions{Descendants: true, UntilTurn: sent.TurnID}, func(u spool.Update) error {
			if u.Event != nil {
				if u.Event.Seq != tree[u.ThreadID]+1 {
					return fmt.Errorf("%s: event %d after %d", u.ThreadID, u.Event.Seq, tree[u.ThreadID])
				}
				tree[u.ThreadID] = u.Event.Seq
			}
			if x := u.Text; x != nil && x.Text != "" {
				w := treeText[x.MessageID]
				if w == nil || w.attempt != x.Attempt {
					w = &written{attempt: x.Attempt}
					treeText[x.MessageID] = w
				}
				if x.Offset != len(w.text) {
					return fmt.Errorf("%s: text at %d after %d bytes", x.MessageID, x.Offset, len(w.text))
				}
				w.text += x.Text
			}
			return nil
		})
	}()
	kills := make(chan int, 1)
	go func() { // the killer
		n := 0
		defer func() { kills <- n }()
		for n < 4 {
			select {
			case <-done:
				return
			case <-time.After(time.Duration(300+rnd.Intn(500)) * time.Millisecond):
			}
			n++
			if n%2 == 1 {
				web.Kill()
				web.Restart()
				continue
			}
			worker.Kill()
			worker = s.StartWorker("SPOOL_MAX_EVENTS=30")
		}
	}()
	r := &reader{t: t, url: web.URL + "/api/v1/threads/" + id(sent.ThreadID) + "/follow?untilTurn=" + sent.TurnID, texts: map[string]*written{}, saved: map[string]string{}}
	updates := 0
	for !r.ended {
		require.NoError(t, ctx.Err(), "the reader came to the end")
		r.read(ctx, func() bool { updates++; return updates%23 == 0 }) // and it drops its connection now and then
		if !r.ended {
			time.Sleep(20 * time.Millisecond)
		}
	}
	require.NoError(t, <-followed, "the client that follows the tree saw all of it once")
	close(done)
	n := <-kills
	require.Greater(t, n, 1, "something was killed in between")
	require.Greater(t, r.streams, 2)

	end := s.Wait(sent)
	require.Equal(t, "completed", end.Status, end.Error)
	require.Equal(t, words+"of the parent", end.Response)
	want, err := s.Store.Events(t.Context(), sent.ThreadID, 0, 0)
	require.NoError(t, err)
	require.Len(t, r.events, len(want))
	for i, e := range want {
		require.Equal(t, e.Type+string(e.Data), r.events[i].Type+string(r.events[i].Data))
	}
	for message, w := range r.texts {
		require.True(t, strings.HasPrefix(r.saved[message], w.text), "what was streamed is what was saved: %q, %q", w.text, r.saved[message])
	}
	children, err := s.Store.Children(t.Context(), sent.ThreadID)
	require.NoError(t, err)
	require.Len(t, children, 1)
	require.Positive(t, tree[children[0].ID], "the tree's stream told of the child")
	s.Verify()
	t.Logf("%d kills, %d streams, %d updates", n, r.streams, updates)
}

// One stream serves a page: several threads and the list, with one event id.
func TestOneStreamForAPage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.StartWorker()
	x, y := b.ends(b.say("x", "script: say one")), b.ends(b.say("y", "script: say two"))
	path := "/api/v1/follow?threads=true&thread=" + id(x.ThreadID) + "&thread=" + id(y.ThreadID)
	read := func(lastID string, until func(sse) bool) (out []sse) {
		ctx, cancel := context.WithTimeout(t.Context(), tt.Patience)
		defer cancel()
		r := b.request(http.MethodGet, path, nil).WithContext(ctx)
		r.Header.Set("Last-Event-ID", lastID)
		res, err := http.DefaultTransport.RoundTrip(r)
		require.NoError(t, err)
		defer res.Body.Close()
		require.Equal(t, 200, res.StatusCode)
		lines, e := bufio.NewReader(res.Body), sse{}
		for {
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			field, value, _ := strings.Cut(strings.TrimRight(line, "\n"), ": ")
			switch field {
			case "id":
				e.id = value
			case "event":
				e.name = value
			case "data":
				e.data = value
			case "":
				out = append(out, e)
				if e.name != "" && until(e) {
					return out
				}
				e = sse{}
			}
		}
	}
	seqs := func(events []sse) map[string][]int64 {
		got := map[string][]int64{}
		for _, e := range events {
			var u spool.Update
			if e.name == "update" {
				require.NoError(t, json.Unmarshal([]byte(e.data), &u))
				if u.Event != nil {
					got[u.ThreadID] = append(got[u.ThreadID], u.Event.Seq)
				}
			}
		}
		return got
	}
	dense := func(from, to int64) (out []int64) {
		for i := from; i <= to; i++ {
			out = append(out, i)
		}
		return out
	}
	last := func(thread string) int64 {
		e, err := b.Store.Events(t.Context(), thread, 0, 0)
		require.NoError(t, err)
		return e[len(e)-1].Seq
	}
	lx, ly := last(x.ThreadID), last(y.ThreadID)
	listed := map[string]bool{}
	cursor := ""
	first := read("", func(e sse) bool {
		if e.name == "thread" {
			var th agent.Thread
			require.NoError(t, json.Unmarshal([]byte(e.data), &th))
			listed[th.ID] = true
		}
		if e.id != "" {
			cursor = e.id
		}
		return len(listed) == 2 && cursorsAt(cursor, lx, ly)
	})
	require.Equal(t, map[string][]int64{x.ThreadID: dense(1, lx), y.ThreadID: dense(1, ly)}, seqs(first))

	// It goes on in both behind the one id, and tells of changes in the list.
	b.ends(b.say("x", "script: say three"))
	lx2 := last(x.ThreadID)
	second := read(cursor, func(e sse) bool { return e.id != "" && cursorsAt(e.id, lx2, ly) })
	require.Equal(t, map[string][]int64{x.ThreadID: dense(lx+1, lx2)}, seqs(second))
	b.get(path+"&thread="+id(x.ThreadID)).fails(400, "invalid", "twice")
	b.get(path+"&from=1").fails(400, "invalid", "1 cursors for 2 threads")
}

// cursorsAt reports whether an event id has come to these events.
func cursorsAt(id string, seqs ...int64) bool {
	parts := strings.Split(id, ",")
	for i, seq := range seqs {
		c, err := spool.ParseCursor(parts[i])
		if err != nil || c.Seq < seq {
			return false
		}
	}
	return true
}

// stuck is a reader that takes nothing until it is let go.
type stuck struct {
	http.ResponseWriter
	header   http.Header
	begun    chan struct{}
	let      chan struct{}
	deadline time.Time
	once     sync.Once
}

func (s *stuck) Header() http.Header                { return s.header }
func (s *stuck) WriteHeader(int)                    {}
func (s *stuck) Flush()                             {}
func (s *stuck) SetWriteDeadline(t time.Time) error { s.deadline = t; return nil }
func (s *stuck) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.begun) })
	<-s.let
	return 0, os.ErrDeadlineExceeded
}

// A reader that takes nothing holds nobody up, and is cut off after a while.
func TestASlowReaderHoldsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.StartWorker()
	r := b.ends(b.say("s", "script: say one"))
	w := &stuck{header: http.Header{}, begun: make(chan struct{}), let: make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.server.ServeHTTP(w, b.request(http.MethodGet, "/api/v1/threads/"+id(r.ThreadID)+"/follow", nil))
	}()
	<-w.begun
	require.Equal(t, "two", b.ends(b.say("s", "script: say two")).Response)
	require.NotEmpty(t, b.get("/api/v1/threads/"+id(r.ThreadID)+"/follow?untilIdle=true").is(200).events())
	close(w.let) // as the connection does at its deadline
	select {
	case <-ended:
	case <-time.After(tt.Patience):
		t.Fatal("the stream goes on although its reader is gone")
	}
	require.WithinDuration(t, time.Now().Add(30*time.Second), w.deadline, 25*time.Second)
}
