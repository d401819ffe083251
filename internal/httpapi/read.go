package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// Sizes of pages.
const (
	defaultPage = 100
	maxPage     = 1000
)

// healthTimeout bounds the question whether the store is there.
const healthTimeout = 3 * time.Second

func (s *Server) health(c *call) error {
	ctx, cancel := context.WithTimeout(c.r.Context(), healthTimeout)
	defer cancel()
	if _, err := s.store.Changed(ctx); err != nil {
		s.o.Log.Warn("the store cannot be reached", "error", err)
		return agent.Errorf(agent.CodeUnavailable, "the store cannot be reached")
	}
	return c.answer(map[string]string{"status": "ok"})
}

// who is the user of a request, as told to the page.
type who struct {
	UserID  string `json:"userId"`
	StoreID string `json:"storeId"`
	// UI is the address of Temporal's web UI, if there is one.
	UI string `json:"ui,omitempty"`
	// Demo means that no model is configured for this server: a worker with the same
	// settings answers by the scripted demo model.
	Demo bool `json:"demo,omitempty"`
}

func (s *Server) me(c *call) error {
	return c.answer(who{UserID: c.user, StoreID: s.store.ID(), UI: s.o.UI, Demo: s.o.Demo})
}

// agentInfo is an agent that a message may name.
type agentInfo struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

func (s *Server) knownAgents() []agentInfo {
	out := []agentInfo{}
	if s.o.Agents != nil {
		for _, a := range s.o.Agents() {
			out = append(out, agentInfo{a.Name, a.Description})
		}
	}
	return out
}

func (s *Server) agents(c *call) error {
	return c.answer(map[string]any{"agents": s.knownAgents()})
}

// threadList is a page of threads.
type threadList struct {
	Threads []agent.Thread `json:"threads"`
	Next    string         `json:"next,omitempty"`
}

func (s *Server) threads(c *call) error {
	q := c.query()
	f := memory.ThreadFilter{All: q.flag("all"), SessionID: q.text("session"), Workdir: q.text("workdir"), Root: q.text("root"), Parent: q.text("parent")}
	after, limit := q.text("after"), q.number("limit", defaultPage, 1, maxPage)
	if err := q.check(); err != nil {
		return err
	}
	f.SubAgents = f.Parent != ""
	list, next, err := c.client.ThreadPage(c.r.Context(), f, after, int(limit))
	if err != nil {
		return err
	}
	return c.answer(threadList{list, next})
}

func (s *Server) thread(c *call) error {
	id, err := c.threadID()
	if err != nil {
		return err
	}
	q := c.query()
	o := spool.ShowOptions{Events: q.flag("events"), Last: int(q.number("last", 0, 1, 100_000)), Cursor: true}
	if err := q.check(); err != nil {
		return err
	}
	v, err := c.client.ShowWith(c.r.Context(), id, o)
	if err != nil {
		return err
	}
	return c.answer(v)
}

func (s *Server) messages(c *call) error {
	id, err := c.threadID()
	if err != nil {
		return err
	}
	return s.messagesOf(c, id)
}

// messageList is a page of messages, in order of seq.
type messageList struct {
	Messages []agent.Message `json:"messages"`
	// Next is the after of the next page, if there may be one.
	Next int64 `json:"next,omitempty"`
	// ToolCalls and Tasks belong to the messages, if they were asked for.
	ToolCalls []agent.ToolCall `json:"toolCalls,omitempty"`
	Tasks     []agent.Task     `json:"tasks,omitempty"`
}

// messagesOf reads forward from after, or what stands right before before.
func (s *Server) messagesOf(c *call, threadID string) error {
	q := c.query()
	after, before := q.number("after", 0, 0, 1<<53), q.number("before", 0, 1, 1<<53)
	limit, calls := q.number("limit", defaultPage, 1, maxPage), q.flag("calls")
	if q.values.Has("after") && q.values.Has("before") {
		return agent.Errorf(agent.CodeInvalid, "after reads forward and before backward: give one of the two")
	}
	if err := q.check(); err != nil {
		return err
	}
	if before > 0 {
		after = max(0, before-1-limit)
		limit = before - 1 - after
	}
	out := messageList{Messages: []agent.Message{}}
	switch {
	case limit > 0 && calls:
		p, err := c.client.MessagePage(c.r.Context(), threadID, after, int(limit))
		if err != nil {
			return err
		}
		out.Messages, out.ToolCalls, out.Tasks = p.Messages, p.ToolCalls, p.Tasks
	case limit > 0:
		var err error
		if out.Messages, err = c.client.Messages(c.r.Context(), threadID, after, int(limit)); err != nil {
			return err
		}
	}
	if n := len(out.Messages); before == 0 && n > 0 && n == int(limit) {
		out.Next = out.Messages[n-1].Seq
	}
	return c.answer(out)
}

// eventList is a page of a thread's log.
type eventList struct {
	Events []agent.Event `json:"events"`
	Next   int64         `json:"next,omitempty"`
}

func (s *Server) events(c *call) error {
	id, err := c.threadID()
	if err != nil {
		return err
	}
	q := c.query()
	after, limit := q.number("after", 0, 0, 1<<53), q.number("limit", defaultPage, 1, maxPage)
	if err := q.check(); err != nil {
		return err
	}
	out := eventList{}
	if out.Events, err = c.client.Events(c.r.Context(), id, after, int(limit)); err != nil {
		return err
	}
	if n := len(out.Events); n == int(limit) {
		out.Next = out.Events[n-1].Seq
	}
	return c.answer(out)
}

func (s *Server) tasks(c *call) error {
	id, err := c.threadID()
	if err != nil {
		return err
	}
	return s.tasksOf(c, id)
}

func (s *Server) tasksOf(c *call, threadID string) error {
	if err := c.query().check(); err != nil {
		return err
	}
	tasks, err := c.client.Tasks(c.r.Context(), threadID)
	if err != nil {
		return err
	}
	return c.answer(map[string]any{"tasks": tasks})
}

func (s *Server) toolCalls(c *call) error {
	id, err := c.threadID()
	if err != nil {
		return err
	}
	return s.toolCallsOf(c, id)
}

func (s *Server) toolCallsOf(c *call, threadID string) error {
	if err := c.query().check(); err != nil {
		return err
	}
	calls, err := c.client.ToolCalls(c.r.Context(), threadID)
	if err != nil {
		return err
	}
	return c.answer(map[string]any{"toolCalls": calls})
}

func (s *Server) toolOutput(c *call) error {
	text, err := c.client.ToolOutput(c.r.Context(), c.path("call"))
	if err != nil {
		return err
	}
	bound(c.w)
	c.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	c.w.Header().Set("Cache-Control", "no-store")
	_, _ = c.w.Write([]byte(text)) // a client that is gone needs no answer
	return nil
}

func (s *Server) trace(c *call) error {
	id, err := c.threadID()
	if err != nil {
		return err
	}
	n, err := c.client.Trace(c.r.Context(), id)
	if err != nil {
		return err
	}
	return c.answer(n)
}

// tails says where to follow a tree from, to see only what is new. A thread that
// does not exist yet has none.
func (s *Server) tails(c *call) error {
	id, err := c.threadID()
	if err != nil {
		return err
	}
	tails, err := c.client.TailTree(c.r.Context(), id)
	if err != nil {
		return err
	}
	return c.answer(map[string]any{"tails": tails})
}

// maxWait bounds how long a request waits for a turn.
const maxWait = 60

// turn says where a message's turn stands, or waits for its end or for a person.
func (s *Server) turn(c *call) error {
	id, err := c.threadID()
	if err != nil {
		return err
	}
	q := c.query()
	wait, patient, served := q.number("wait", 0, 0, maxWait), q.flag("patient"), q.flag("served")
	if err := q.check(); err != nil {
		return err
	}
	if wait > 0 {
		ctx, cancel := context.WithTimeout(c.r.Context(), time.Duration(wait)*time.Second)
		defer cancel()
		defer context.AfterFunc(s.stopped(ctx), cancel)()
		r, err := c.client.Wait(ctx, id, c.path("turn"), spool.WaitOptions{Patient: patient})
		if err == nil || ctx.Err() == nil || c.r.Context().Err() != nil {
			return s.reply(c, http.StatusOK, r, err)
		}
	}
	r, err := c.client.Status(c.r.Context(), id, c.path("turn"))
	if err == nil && served {
		r = c.client.Served(c.r.Context(), r)
	}
	return s.reply(c, http.StatusOK, r, err)
}

// stopped is a context that ends with ctx or when the server stops.
func (s *Server) stopped(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		select {
		case <-s.closing:
		case <-ctx.Done():
		}
	}()
	return ctx
}

// reply is a spool.Reply with what its JSON leaves out.
type reply struct {
	spool.Reply
	State memory.EntryState `json:"state,omitempty"`
}

func (s *Server) reply(c *call, status int, r spool.Reply, err error) error {
	if err != nil {
		return err
	}
	writeJSON(c.w, status, reply{r, r.State})
	return nil
}

func (s *Server) approvals(c *call) error {
	q := c.query()
	thread := q.text("thread")
	if err := q.check(); err != nil {
		return err
	}
	open, err := c.client.Approvals(c.r.Context(), thread)
	if err != nil {
		return err
	}
	return c.answer(map[string]any{"approvals": open})
}

func (s *Server) decisions(c *call) error {
	if err := c.query().check(); err != nil {
		return err
	}
	all, err := c.client.Decisions(c.r.Context())
	if err != nil {
		return err
	}
	return c.answer(map[string]any{"decisions": all})
}

func (s *Server) questions(c *call) error {
	q := c.query()
	thread := q.text("thread")
	if err := q.check(); err != nil {
		return err
	}
	open, err := c.client.Questions(c.r.Context(), thread)
	if err != nil {
		return err
	}
	return c.answer(map[string]any{"questions": open})
}

func (s *Server) waits(c *call) error {
	q := c.query()
	thread := q.text("thread")
	if err := q.check(); err != nil {
		return err
	}
	waits, err := c.client.ModelWaits(c.r.Context(), thread)
	if err != nil {
		return err
	}
	return c.answer(map[string]any{"waits": waits})
}
