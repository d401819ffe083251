package remote

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// reply is a spool.Reply with what its JSON leaves out.
type reply struct {
	spool.Reply
	State memory.EntryState `json:"state"`
}

func (r reply) whole() spool.Reply {
	r.Reply.State = r.State
	if s := agent.ThreadStatus(r.Status); s.Final() {
		r.Outcome = s
	}
	return r.Reply
}

// Send is that of spool.Client. A missing message id is made here, so that the
// request may be repeated.
func (c *Client) Send(ctx context.Context, r memory.SendRequest) (spool.Reply, error) {
	if r.MessageID == "" {
		r.MessageID = spool.NewID()
	}
	if r.ThreadID == "" && r.SessionID == "" {
		r.SessionID = spool.NewID()
	}
	body := map[string]any{"messageId": r.MessageID, "content": r.Content}
	for name, value := range map[string]string{
		"sessionId": r.SessionID, "conversationId": r.ConversationID, "threadId": r.ThreadID, "whenBusy": string(r.WhenBusy),
		"agent": r.Agent, "model": r.Model, "workdir": r.Workdir,
	} {
		if value != "" {
			body[name] = value
		}
	}
	if len(r.AnswerSchema) > 0 {
		body["answerSchema"] = r.AnswerSchema
	}
	var out reply
	err := c.repeat(ctx, http.MethodPost, "/api/v1/messages", body, &out)
	return out.whole(), err
}

// KeepImage is that of spool.Client.
func (c *Client) KeepImage(ctx context.Context, data []byte) (string, error) {
	var out struct {
		URL string `json:"url"`
	}
	err := c.repeat(ctx, http.MethodPost, "/api/v1/images", map[string][]byte{"data": data}, &out)
	return strings.TrimPrefix(out.URL, agent.ImageScheme), err
}

// Retry is that of spool.Client.
func (c *Client) Retry(ctx context.Context, threadID, requestID string) (spool.Reply, error) {
	if requestID == "" {
		requestID = spool.NewID()
	}
	var out reply
	err := c.repeat(ctx, http.MethodPost, threadPath(threadID, "/retry"), map[string]string{"requestId": requestID}, &out)
	return out.whole(), err
}

// Fork is that of spool.Client. A missing request id is made here, so that the
// request may be repeated.
func (c *Client) Fork(ctx context.Context, r spool.ForkRequest) (spool.Forked, error) {
	if r.RequestID == "" {
		r.RequestID = spool.NewID()
	}
	var out spool.Forked
	body := map[string]string{"at": r.At, "conversationId": r.ConversationID, "requestId": r.RequestID}
	err := c.repeat(ctx, http.MethodPost, threadPath(r.ThreadID, "/fork"), body, &out)
	return out, err
}

// Cancel is that of spool.Client. Without a turn it is not repeated: the second
// could mean another one.
func (c *Client) Cancel(ctx context.Context, r memory.CancelRequest) (spool.Cancelled, error) {
	var out spool.Cancelled
	send := c.once
	if r.TurnID != "" {
		send = c.repeat
	}
	err := send(ctx, http.MethodPost, threadPath(r.ThreadID, "/cancel"), map[string]any{"turnId": r.TurnID, "all": r.All}, &out)
	return out, err
}

// Status is that of spool.Client.
func (c *Client) Status(ctx context.Context, threadID, turnID string) (spool.Reply, error) {
	return c.turn(ctx, threadID, turnID, nil)
}

// Served is that of spool.Client. If the server cannot say, the reply is returned
// as it is.
func (c *Client) Served(ctx context.Context, r spool.Reply) spool.Reply {
	if r.Status != spool.StatusQueued && r.Status != string(agent.ThreadRunning) {
		return r
	}
	now, err := c.turn(ctx, r.ThreadID, r.TurnID, url.Values{"served": {"true"}})
	if err != nil || now.Status != spool.StatusStored {
		return r
	}
	r.Status, r.Note = now.Status, now.Note
	return r
}

func (c *Client) turn(ctx context.Context, threadID, turnID string, q url.Values) (spool.Reply, error) {
	var out reply
	err := c.get(ctx, threadPath(threadID, "/turns/"+url.PathEscape(turnID)), q, &out)
	return out.whole(), err
}

const (
	// waitFor is how long one request waits for a turn, in seconds.
	waitFor = 20
	// patience is how long a server that waits for a turn may be away.
	patience = 2 * time.Minute
)

// Wait is that of spool.Client. A server that is away is waited for, up to two
// minutes, or without end with o.Patient.
func (c *Client) Wait(ctx context.Context, threadID, turnID string, o spool.WaitOptions) (spool.Reply, error) {
	q := url.Values{"wait": {strconv.Itoa(waitFor)}, "patient": {strconv.FormatBool(o.Patient)}}
	reached := time.Now()
	for {
		r, err := c.turn(ctx, threadID, turnID, q)
		switch {
		case ctx.Err() != nil:
			return r, ctx.Err()
		case agent.CodeOf(err) == agent.CodeUnavailable && (o.Patient || time.Since(reached) < patience):
			if err := sleep(ctx, time.Second); err != nil {
				return r, err
			}
			continue
		case err != nil:
			return r, err
		case r.Status != spool.StatusQueued && r.Status != string(agent.ThreadRunning) && !(o.Patient && waitsForPeople(r)):
			return r, nil
		}
		reached = time.Now()
	}
}

func waitsForPeople(r spool.Reply) bool {
	s := agent.ThreadStatus(r.Status)
	return s == agent.ThreadWaitingForApproval || s == agent.ThreadWaitingForUser
}

// ThreadPage is that of spool.Client.
func (c *Client) ThreadPage(ctx context.Context, f memory.ThreadFilter, after string, limit int) ([]agent.Thread, string, error) {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	for name, value := range map[string]string{"session": f.SessionID, "workdir": f.Workdir, "root": f.Root, "parent": f.Parent, "after": after} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if f.All {
		q.Set("all", "true")
	}
	var out struct {
		Threads []agent.Thread `json:"threads"`
		Next    string         `json:"next"`
	}
	err := c.get(ctx, "/api/v1/threads", q, &out)
	return out.Threads, out.Next, err
}

// Show is that of spool.Client.
func (c *Client) Show(ctx context.Context, threadID string, events bool) (spool.View, error) {
	var out spool.View
	err := c.get(ctx, threadPath(threadID, ""), url.Values{"events": {strconv.FormatBool(events)}}, &out)
	out.Cursor = "" // as on a store: nobody asked for it
	return out, err
}

// Tasks is that of spool.Client.
func (c *Client) Tasks(ctx context.Context, threadID string) ([]agent.Task, error) {
	var out struct {
		Tasks []agent.Task `json:"tasks"`
	}
	err := c.get(ctx, threadPath(threadID, "/tasks"), nil, &out)
	return out.Tasks, err
}

// Trace is that of spool.Client.
func (c *Client) Trace(ctx context.Context, threadID string) (*spool.Node, error) {
	var out spool.Node
	err := c.get(ctx, threadPath(threadID, "/trace"), nil, &out)
	return &out, err
}

// TailTree is that of spool.Client.
func (c *Client) TailTree(ctx context.Context, threadID string) (map[string]string, error) {
	var out struct {
		Tails map[string]string `json:"tails"`
	}
	err := c.get(ctx, threadPath(threadID, "/tails"), nil, &out)
	return out.Tails, err
}
