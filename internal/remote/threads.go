package remote

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// Send is that of spool.Client. Missing ids are made here, so that the request may be
// repeated.
func (c *Client) Send(ctx context.Context, r memory.SendRequest) (spool.Reply, error) {
	if r.MessageID == "" {
		r.MessageID = spool.NewID()
	}
	if r.ThreadID == "" && r.SessionID == "" {
		r.SessionID = spool.NewID()
	}
	sent, err := post[spool.Reply](ctx, c, "/api/v1/messages", r)
	return sent, r.Unsent(err)
}

// KeepImage is that of spool.Client.
func (c *Client) KeepImage(ctx context.Context, data []byte) (string, error) {
	out, err := post[map[string]string](ctx, c, "/api/v1/images", map[string][]byte{"data": data})
	return strings.TrimPrefix(out["url"], agent.ImageScheme), err
}

// Retry is that of spool.Client.
func (c *Client) Retry(ctx context.Context, threadID, requestID string) (spool.Reply, error) {
	if requestID == "" {
		requestID = spool.NewID()
	}
	return post[spool.Reply](ctx, c, threadPath(threadID, "/retry"), map[string]string{"requestId": requestID})
}

// Fork is that of spool.Client. A missing request id is made here, so that the
// request may be repeated.
func (c *Client) Fork(ctx context.Context, r spool.ForkRequest) (spool.Forked, error) {
	if r.RequestID == "" {
		r.RequestID = spool.NewID()
	}
	return post[spool.Forked](ctx, c, threadPath(r.ThreadID, "/fork"), r)
}

// Cancel is that of spool.Client. Without a turn it is not repeated: the second
// could mean another one.
func (c *Client) Cancel(ctx context.Context, r memory.CancelRequest) (out spool.Cancelled, err error) {
	send := c.once
	if r.TurnID != "" {
		send = c.repeat
	}
	err = send(ctx, http.MethodPost, threadPath(r.ThreadID, "/cancel"), r, &out)
	return out, err
}

// Status is that of spool.Client.
func (c *Client) Status(ctx context.Context, threadID, turnID string) (spool.Reply, error) {
	return c.turn(ctx, threadID, turnID, nil)
}

// Served is that of spool.Client. If the server cannot say, the reply is returned
// as it is.
func (c *Client) Served(ctx context.Context, r spool.Reply) spool.Reply {
	if !r.Moving() {
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
	return get[spool.Reply](ctx, c, threadPath(threadID, "/turns/"+url.PathEscape(turnID)), q)
}

const (
	// waitFor is how long one request waits for a turn, in seconds.
	waitFor = 20
	// patience is how long a server that waits for a turn may be unreachable.
	patience = 2 * time.Minute
)

// Wait is that of spool.Client. A server that cannot be reached is waited for, up to two
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
		case !r.Moving() && !(o.Patient && agent.ThreadStatus(r.Status).NeedsPerson()):
			return r, nil
		}
		reached = time.Now()
	}
}

// ThreadPage is that of spool.Client.
func (c *Client) ThreadPage(ctx context.Context, f memory.ThreadFilter, after string, limit int) ([]agent.Thread, string, error) {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	for name, value := range map[string]string{"session": f.SessionID, "workdir": f.Workdir, "root": f.Root, "parent": f.Parent, "prefix": f.Prefix, "status": string(f.Status), "after": after} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for name, set := range map[string]bool{"all": f.All, "working": f.Working} {
		if set {
			q.Set(name, "true")
		}
	}
	type page struct {
		Threads []agent.Thread `json:"threads"`
		Next    string         `json:"next"`
	}
	out, err := get[page](ctx, c, "/api/v1/threads", q)
	return out.Threads, out.Next, err
}

// Show is that of spool.Client.
func (c *Client) Show(ctx context.Context, threadID string, events bool) (spool.View, error) {
	out, err := get[spool.View](ctx, c, threadPath(threadID, ""), url.Values{"events": {strconv.FormatBool(events)}})
	out.Cursor = "" // as on a store: it was not asked for
	return out, err
}

// Tasks is that of spool.Client.
func (c *Client) Tasks(ctx context.Context, threadID string) ([]agent.Task, error) {
	return list[agent.Task](ctx, c, threadPath(threadID, "/tasks"), nil)
}

// Trace is that of spool.Client.
func (c *Client) Trace(ctx context.Context, threadID string) (*spool.Node, error) {
	n, err := get[*spool.Node](ctx, c, threadPath(threadID, "/trace"), nil)
	if err == nil && holed(n) {
		err = agent.Errorf(agent.CodeInternal, "the threads in the answer of %s cannot be read: is it a web server of Spool?", c.base)
	}
	return n, err
}

// holed reports whether a child in a tree is missing.
func holed(n *spool.Node) bool { return n == nil || slices.ContainsFunc(n.Children, holed) }

// TailTree is that of spool.Client.
func (c *Client) TailTree(ctx context.Context, threadID string) (map[string]string, error) {
	out, err := get[map[string]map[string]string](ctx, c, threadPath(threadID, "/tails"), nil)
	return out["tails"], err
}

func ofThread(threadID string) url.Values {
	if threadID == "" {
		return nil
	}
	return url.Values{"thread": {threadID}}
}

// Approvals is that of spool.Client.
func (c *Client) Approvals(ctx context.Context, threadID string) ([]spool.ApprovalRequest, error) {
	return list[spool.ApprovalRequest](ctx, c, "/api/v1/approvals", ofThread(threadID))
}

// Decisions is that of spool.Client.
func (c *Client) Decisions(ctx context.Context) ([]memory.Approval, error) {
	return list[memory.Approval](ctx, c, "/api/v1/decisions", nil)
}

// Decide is that of spool.Client.
func (c *Client) Decide(ctx context.Context, d memory.Decision) (spool.Decided, error) {
	return post[spool.Decided](ctx, c, "/api/v1/approvals/"+url.PathEscape(d.Target)+"/decision", d)
}

// Permissions is that of spool.Client.
func (c *Client) Permissions(ctx context.Context, session string) ([]memory.Permission, error) {
	return list[memory.Permission](ctx, c, "/api/v1/permissions", url.Values{"session": {session}})
}

// Revoke is that of spool.Client. It is not repeated: the second would find nothing.
func (c *Client) Revoke(ctx context.Context, session string, p memory.Permission) error {
	q := url.Values{"session": {session}, "rule": {p.Rule}, "agent": {p.Agent}, "source": {p.Source}}
	return c.once(ctx, http.MethodDelete, "/api/v1/permissions?"+q.Encode(), nil, &p)
}

// Questions is that of spool.Client.
func (c *Client) Questions(ctx context.Context, threadID string) ([]spool.QuestionRequest, error) {
	return list[spool.QuestionRequest](ctx, c, "/api/v1/questions", ofThread(threadID))
}

// ModelWaits is that of spool.Client.
func (c *Client) ModelWaits(ctx context.Context, threadID string) ([]agent.ModelWait, error) {
	return list[agent.ModelWait](ctx, c, "/api/v1/waits", ofThread(threadID))
}

// Answer is that of spool.Client.
func (c *Client) Answer(ctx context.Context, r memory.AnswerRequest) (spool.Answered, error) {
	return post[spool.Answered](ctx, c, "/api/v1/questions/"+url.PathEscape(r.Target)+"/answer", r)
}
