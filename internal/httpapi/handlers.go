package httpapi

import (
	"context"
	_ "embed" // the document
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
	"github.com/spool-agents/spool/memory"
)

// Sizes of pages.
const (
	defaultPage = 100
	maxPage     = 1000
)

// maxSeq is the largest number that JavaScript has.
const maxSeq = 1 << 53

// healthTimeout bounds the question whether the store is there.
const healthTimeout = 3 * time.Second

// reads makes a handler of what the client reads of a thread: a document, or a member
// of one.
func reads[T any](member string, f func(*spool.Client, context.Context, string) (T, error)) handler {
	return func(_ *Server, c *call) (any, error) {
		v, err := f(c.client, c.r.Context(), c.thread)
		if err != nil || member == "" {
			return v, err
		}
		return map[string]any{member: v}, nil
	}
}

// command makes a handler of what the client does with a request. Its body is the
// request; aim adds what the path names.
func command[R, A any](f func(*spool.Client, context.Context, R) (A, error), aim func(*R, *call)) handler {
	return func(_ *Server, c *call) (any, error) {
		var r R
		c.body(&r)
		aim(&r, c)
		return f(c.client, c.r.Context(), r)
	}
}

func (s *Server) health(c *call) (any, error) {
	ctx, cancel := context.WithTimeout(c.r.Context(), healthTimeout)
	defer cancel()
	if _, err := s.store.Changed(ctx); err != nil {
		s.o.Log.Warn("the store cannot be reached", "error", err)
		return nil, agent.Errorf(agent.CodeUnavailable, "the store cannot be reached")
	}
	return map[string]string{"status": "ok"}, nil
}

// who is the user of a request, for the page.
type who struct {
	UserID  string `json:"userId"`
	StoreID string `json:"storeId"`
	// UI is the address of Temporal's web UI, if there is one.
	UI string `json:"ui,omitempty"`
	// Demo means that no model is configured for this server: a worker with the same
	// settings answers by the scripted demo model.
	Demo bool `json:"demo,omitempty"`
	// Administrator runs the server, and alone may approve what MayApprove leaves out.
	Administrator string   `json:"administrator,omitempty"`
	MayApprove    []string `json:"mayApprove"`
}

func (s *Server) me(c *call) (any, error) { return s.whoIs(c), nil }

func (s *Server) whoIs(c *call) who {
	w := who{UserID: c.user, StoreID: s.store.ID(), UI: s.o.UI, Demo: s.o.Demo, Administrator: s.o.Administrator, MayApprove: s.o.Approvals}
	if c.user == s.o.Administrator {
		w.MayApprove = []string{"*"}
	}
	return w
}

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

func (s *Server) agents(*call) (any, error) {
	return map[string]any{"agents": s.knownAgents()}, nil
}

type threadList struct {
	Threads []agent.Thread `json:"threads"`
	Next    string         `json:"next,omitempty"`
}

func (s *Server) threads(c *call) (any, error) {
	q := c.query()
	if text := q.Get("q"); text != "" {
		return s.search(c, text)
	}
	f := memory.ThreadFilter{All: q.flag("all"), SessionID: q.Get("session"), Workdir: q.Get("workdir"), Root: q.Get("root"), Parent: q.Get("parent"),
		Prefix: q.Get("prefix"), Status: agent.ThreadStatus(q.Get("status"))}
	if f.Status != "" && !slices.Contains(strings.Split(agent.ThreadStates, ", "), string(f.Status)) {
		q.bad("status", string(f.Status), "one of "+agent.ThreadStates)
	}
	f.Working = q.flag("working")
	f.SubAgents = f.Parent != "" || f.Working
	limit := q.number("limit", defaultPage, 1, maxPage)
	list, next, err := c.client.ThreadPage(c.r.Context(), f, q.Get("after"), int(limit))
	return threadList{list, next}, err
}

func (s *Server) chats(c *call) (any, error) {
	q := c.query()
	limit := q.number("limit", defaultPage, 1, maxPage)
	list, next, err := c.client.ThreadPage(c.r.Context(), memory.ThreadFilter{}, q.Get("after"), int(limit))
	return struct {
		Chats []agent.Thread `json:"chats"`
		Next  string         `json:"next,omitempty"`
	}{list, next}, err
}

func (s *Server) thread(c *call) (any, error) {
	q := c.query()
	o := spool.ShowOptions{Events: q.flag("events"), Last: int(q.number("last", 0, 1, 100_000)), Cursor: true}
	return c.client.ShowWith(c.r.Context(), c.thread, o)
}

type messageList struct {
	Messages []agent.Message `json:"messages"`
	// Next is the after of the next page, if there may be one.
	Next int64 `json:"next,omitempty"`
	// ToolCalls and Tasks belong to the messages, if they were asked for.
	ToolCalls []agent.ToolCall `json:"toolCalls,omitempty"`
	Tasks     []agent.Task     `json:"tasks,omitempty"`
	// Events say what those do not, with calls too.
	Events []agent.Event `json:"events,omitempty"`
}

// messagePages are the parameters of messages.
const messagePages = "after before limit calls"

// messages reads forward from after, or what stands right before before.
func (s *Server) messages(c *call) (any, error) {
	q := c.query()
	after, before, limit := q.number("after", 0, 0, maxSeq), q.number("before", 0, 1, maxSeq), q.number("limit", defaultPage, 1, maxPage)
	calls := q.flag("calls")
	if q.Has("after") && q.Has("before") {
		return nil, agent.Errorf(agent.CodeInvalid, "after reads forward and before backward: give one of the two")
	}
	if before > 0 {
		after = max(0, before-1-limit)
		limit = before - 1 - after
	}
	out := messageList{Messages: []agent.Message{}}
	var err error
	below, first := c.path("chatId") != "", before == 0 && after == 0
	switch {
	case limit > 0 && calls:
		var p spool.MessagePage
		p, err = c.client.MessagePage(c.r.Context(), c.thread, after, int(limit))
		out.Messages, out.ToolCalls, out.Tasks, out.Events = p.Messages, p.ToolCalls, p.Tasks, p.Events
	case limit > 0:
		out.Messages, err = c.client.Messages(c.r.Context(), c.thread, after, int(limit))
	}
	if n := len(out.Messages); before == 0 && n > 0 && n == int(limit) {
		out.Next = out.Messages[n-1].Seq
	}
	if !below || err != nil {
		return out, err
	}
	if c.path("id") != "" && first { // a sub-agent begins with its snapshot's system prompt
		t, err := c.client.Thread(c.r.Context(), c.thread)
		if err != nil {
			return nil, err
		}
		system := agent.Message{ID: t.ID + ".system", Role: agent.RoleSystem, Content: agent.Text(t.Config.SystemPrompt), Timestamp: t.CreatedAt, SubAgentID: t.ID}
		out.Messages = slices.Insert(out.Messages, 0, system)
	}
	return ownedMessages{out, c.user}, nil
}

// ownedMessages are messages of a user's collections, which say whose they are.
type ownedMessages struct {
	messageList
	user string
}

func (o ownedMessages) MarshalJSON() ([]byte, error) {
	type owned struct {
		agent.Message
		UserID string `json:"userId"`
	}
	list := make([]owned, len(o.Messages))
	for i, m := range o.Messages {
		list[i] = owned{m, o.user}
	}
	return json.Marshal(struct {
		Messages []owned `json:"messages"`
		messageList
	}{list, o.messageList})
}

// ownedCalls are the tool calls of a sub-agent, as its user's collections show them.
func (s *Server) ownedCalls(c *call) (any, error) {
	calls, err := c.client.ToolCalls(c.r.Context(), c.thread)
	type owned struct {
		agent.ToolCall
		UserID string `json:"userId"`
	}
	list := make([]owned, len(calls))
	for i, call := range calls {
		list[i] = owned{call, c.user}
	}
	return map[string]any{"toolCalls": list}, err
}

// chatTasks lists the tasks of a chat: the orchestrator's, or with all those of its
// sub-agents too.
func (s *Server) chatTasks(c *call) (any, error) {
	q := c.query()
	all := q.flag("all")
	read := c.client.Tasks
	if all {
		read = c.client.TasksBelow
	}
	tasks, err := read(c.r.Context(), c.thread)
	return map[string]any{"tasks": tasks}, err
}

func (s *Server) chatTask(c *call) (any, error) {
	tasks, err := c.client.TasksBelow(c.r.Context(), c.thread)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(tasks, func(t agent.Task) bool { return t.ID == c.path("task") }); i >= 0 {
		return tasks[i], nil
	}
	return nil, agent.Errorf(agent.CodeNotFound, "chat %s has no task %q", c.thread, c.path("task"))
}

type eventList struct {
	Events []agent.Event `json:"events"`
	Next   int64         `json:"next,omitempty"`
}

func (s *Server) events(c *call) (any, error) {
	q := c.query()
	after, limit := q.number("after", 0, 0, maxSeq), q.number("limit", defaultPage, 1, maxPage)
	events, err := c.client.Events(c.r.Context(), c.thread, after, int(limit))
	out := eventList{Events: events}
	if n := len(events); n > 0 && n == int(limit) {
		out.Next = events[n-1].Seq
	}
	return out, err
}

func (s *Server) toolOutput(c *call) (any, error) {
	text, err := c.client.ToolOutput(c.r.Context(), c.path("call"))
	if err != nil {
		return nil, err
	}
	c.write("text/plain; charset=utf-8", "no-store", []byte(text))
	return nil, nil
}

func (s *Server) decisions(c *call) (any, error) {
	all, err := c.client.Decisions(c.r.Context())
	return map[string]any{"decisions": all}, err
}

// maxWait bounds how long a request waits for a turn, in seconds.
const maxWait = 60

// turn says where a message's turn stands, or waits for its end or for a person.
func (s *Server) turn(c *call) (any, error) {
	q := c.query()
	wait, patient, served := q.number("wait", 0, 0, maxWait), q.flag("patient"), q.flag("served")
	if wait > 0 {
		ctx, cancel := context.WithTimeout(s.stopped(c.r.Context(), c), time.Duration(wait)*time.Second)
		defer cancel()
		r, err := c.client.Wait(ctx, c.thread, c.path("turn"), spool.WaitOptions{Patient: patient})
		if err == nil || ctx.Err() == nil || c.r.Context().Err() != nil {
			return r, err
		}
	}
	r, err := c.client.Status(c.r.Context(), c.thread, c.path("turn"))
	if err == nil && served {
		r = c.client.Served(c.r.Context(), r)
	}
	return r, err
}

// stopped is a context that ends with ctx, when the server stops, or when the token or
// the session of the request is not valid any more.
func (s *Server) stopped(ctx context.Context, c *call) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		look := time.NewTicker(time.Second)
		defer look.Stop()
		for {
			select {
			case <-s.closing:
				return
			case <-ctx.Done():
				return
			case <-look.C:
				if who, err := s.identify(c.r); err != nil || who.user != c.user {
					return
				}
			}
		}
	}()
	return ctx
}

func (s *Server) retry(c *call) (any, error) {
	var r struct {
		RequestID string `json:"requestId,omitempty"`
	}
	c.body(&r)
	steps.Check(s.mayRun(c, c.thread))
	return c.client.Retry(c.r.Context(), c.thread, c.keyed(r.RequestID))
}

// chatSend is the one write below a user's chats: a message of the user.
func (s *Server) chatSend(c *call) (any, error) {
	var m struct {
		Role      agent.Role      `json:"role,omitempty"`
		MessageID string          `json:"messageId,omitempty"`
		Content   agent.Content   `json:"content"`
		WhenBusy  memory.WhenBusy `json:"whenBusy,omitempty"`
	}
	c.body(&m)
	if m.Role != "" && m.Role != agent.RoleUser {
		return nil, agent.Errorf(agent.CodeInvalid, "role %q cannot be written: people write messages of the role user only", m.Role)
	}
	p := steps.Must(agent.ParseThreadID(c.thread))
	r := memory.SendRequest{SessionID: p.SessionID, ConversationID: p.ConversationID, MessageID: c.keyed(m.MessageID), Content: m.Content, WhenBusy: m.WhenBusy}
	steps.Check(s.place(c, &r))
	return c.client.Send(c.r.Context(), r)
}

// maxImage is the body of an image: base64 takes four bytes for three.
const maxImage = agent.MaxImage/3*4 + 1024

func (s *Server) keepImage(c *call) (any, error) {
	var b struct {
		Data []byte `json:"data"`
	}
	c.body(&b)
	name, err := s.store.KeepImage(c.r.Context(), b.Data)
	return map[string]string{"url": agent.ImageScheme + name}, err
}

// image shows a kept image. Its name is the digest of its content: who knows it has
// the image, or a message with it. The kinds that are kept hold nothing that runs.
func (s *Server) image(c *call) (any, error) {
	name := c.path("name")
	data, err := s.store.Image(c.r.Context(), name)
	if err != nil {
		return nil, err
	}
	c.write(agent.ImageType(name), "private, max-age=31536000, immutable", data)
	return nil, nil
}

//go:embed openapi.yaml
var openAPI []byte

// OpenAPI is the description of the API as JSON.
var OpenAPI = sync.OnceValues(func() ([]byte, error) {
	raw, err := yaml.YAMLToJSON(openAPI)
	return raw, agent.Wrap(err, agent.CodeInternal, "openapi.yaml")
})

func (s *Server) document(c *call) (any, error) {
	raw, err := OpenAPI()
	if err != nil {
		return nil, err
	}
	c.write("application/json", "no-cache", raw)
	return nil, nil
}
