package spool

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/sdk/client"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/internal/nudge"
	"github.com/spool-agents/spool/internal/telemetry"
	"github.com/spool-agents/spool/memory"
)

const (
	// temporalTimeout bounds one request to Temporal: it only hints at what the
	// store says already.
	temporalTimeout = 10 * time.Second
	// defaultProfile is that of who names none.
	defaultProfile = "default"
)

// ClientOptions are the settings of a Client; the zero value is usable.
type ClientOptions struct {
	// UserID owns what is sent and bounds what is read. Empty reads everything.
	UserID string
	// Profile is stored with new threads, and bounds a user's reading to its own;
	// empty = "default".
	Profile string
	// TaskQueue overrides the queue derived from the store's id.
	TaskQueue string
	// Namespace and UI make links into Temporal's web UI; without UI there are none.
	Namespace string
	UI        string
	// TracerProvider and MeterProvider are told what is sent, as those of
	// WorkerOptions; nil = nobody is.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	// Unreachable says why there is no Temporal client; it becomes part of
	// what a caller is told.
	Unreachable error
}

// Client is what people and their programs do with threads. Its methods are safe
// for concurrent use. It owns neither the store nor the Temporal client.
type Client struct {
	store    memory.ConversationMemoryStore
	temporal client.Client // nil if Temporal cannot be reached
	o        ClientOptions
	told     *telemetry.Sender
}

// NewClient makes a client. temporal may be nil: then messages and decisions are
// stored and take effect when a worker finds them.
func NewClient(store memory.ConversationMemoryStore, temporal client.Client, o ClientOptions) *Client {
	if o.TaskQueue == "" {
		o.TaskQueue = agent.TaskQueue(store.ID())
	}
	if o.Namespace == "" {
		o.Namespace = client.DefaultNamespace
	}
	if o.Profile == "" {
		o.Profile = defaultProfile
	}
	return &Client{store: store, temporal: temporal, o: o, told: telemetry.NewSender(o.TracerProvider, o.MeterProvider)}
}

// Store returns the store the client works on.
func (c *Client) Store() memory.ConversationMemoryStore { return c.store }

// Agents shows which sub-agents the user has, what they do and how they ended.
func (c *Client) Agents() memory.AgentStateManager {
	return memory.AgentStateManager{Store: c.store, UserID: c.o.UserID}
}

// TaskQueue returns the task queue that workers of this store poll.
func (c *Client) TaskQueue() string { return c.o.TaskQueue }

// thread reads a thread of this client's user and profile; others are not found.
func (c *Client) thread(ctx context.Context, threadID string) (agent.Thread, error) {
	t, err := c.store.Thread(ctx, c.o.UserID, threadID)
	if err == nil && !c.sees(t) {
		return agent.Thread{}, agent.Errorf(agent.CodeNotFound, "thread %q does not exist", threadID)
	}
	return t, err
}

// sees reports whether a thread of its user is in this client's profile. A client
// without a user sees all.
func (c *Client) sees(t agent.Thread) bool {
	return c.o.UserID == "" || t.Profile == c.o.Profile || t.Profile == "" && c.o.Profile == defaultProfile
}

// Temporal returns the Temporal client, nil if there is none.
func (c *Client) Temporal() client.Client { return c.temporal }

// Connected reports whether there is a Temporal client.
func (c *Client) Connected() bool { return c.temporal != nil }

// WorkflowURL is the address of a thread in Temporal's web UI, or "".
func (c *Client) WorkflowURL(threadID string) string {
	if c.o.UI == "" {
		return ""
	}
	return strings.TrimRight(c.o.UI, "/") + "/namespaces/" + url.PathEscape(c.o.Namespace) + "/workflows/" + url.PathEscape(threadID)
}

// tell hints to a thread that the store holds something for it.
func (c *Client) tell(ctx context.Context, t contract.NudgeTarget) error {
	if c.temporal == nil {
		return c.unreachable(nil)
	}
	ctx, cancel := context.WithTimeout(ctx, temporalTimeout)
	defer cancel()
	n := nudge.Nudger{Client: c.temporal, StoreID: c.store.ID(), TaskQueue: c.o.TaskQueue}
	if err := n.Nudge(ctx, t); err != nil {
		return c.unreachable(err)
	}
	return nil
}

// tellWaiting tells a thread that a person has settled what it waited for, and
// those above it that wait with it: their time goes on.
func (c *Client) tellWaiting(ctx context.Context, threadID string) error {
	if err := c.tell(ctx, contract.NudgeTarget{Thread: threadID}); err != nil {
		return err
	}
	for {
		t, err := c.store.Thread(ctx, "", threadID)
		if err != nil || t.ParentThreadID == "" {
			return err
		}
		threadID = t.ParentThreadID
		parent, err := c.store.Thread(ctx, "", threadID)
		if err != nil || parent.OpenTurnID == "" {
			return err // whoever is idle does not wait, nor does anybody above
		}
		if err := c.tell(ctx, contract.NudgeTarget{Thread: threadID}); err != nil {
			return err
		}
	}
}

func (c *Client) unreachable(cause error) error {
	if cause == nil {
		cause = c.o.Unreachable
	}
	var busy *serviceerror.ResourceExhausted
	var late *serviceerror.DeadlineExceeded
	switch {
	case cause == nil:
		return agent.Errorf(agent.CodeUnavailable, "Temporal cannot be reached")
	case errors.As(cause, &busy):
		return agent.Wrap(cause, agent.CodeUnavailable, "Temporal is there, but takes no more requests at the moment")
	case errors.As(cause, &late), errors.Is(cause, context.DeadlineExceeded):
		return agent.Errorf(agent.CodeUnavailable, "Temporal did not answer within %s", temporalTimeout)
	}
	return refused(cause, "Temporal cannot be reached")
}

// refused is what an error of Temporal means for a person: what, unless the server is
// there and has no such namespace.
func refused(cause error, what string, args ...any) error {
	var missing *serviceerror.NamespaceNotFound
	if !errors.As(cause, &missing) {
		return agent.Wrap(cause, agent.CodeUnavailable, what, args...)
	}
	return agent.Errorf(agent.CodeUnavailable, "the Temporal server has no namespace %[1]s: name another one (TEMPORAL_NAMESPACE), or make it with `temporal operator namespace create %[1]s`", missing.Namespace)
}

// pollerAge is how old a poller's last request may be: pollers stay listed for
// minutes after their death, and a long poll lasts a minute.
const pollerAge = 75 * time.Second

// Workers counts who polls the task queue; 0 also if Temporal cannot be asked.
func (c *Client) Workers(ctx context.Context) int {
	return c.WorkersOf(ctx, c.o.TaskQueue)
}

// Serving reports whether a process with this identity polls the task queue.
func (c *Client) Serving(ctx context.Context, prefix string) bool {
	found, _ := c.pollersOf(ctx, c.o.TaskQueue)
	return slices.ContainsFunc(found, func(identity string) bool { return strings.HasPrefix(identity, prefix) })
}

// ServingOn reports whether a worker on the machine or in the container with this host
// name polls the task queue.
func (c *Client) ServingOn(ctx context.Context, host string) bool {
	found, _ := c.pollersOf(ctx, c.o.TaskQueue)
	// The SDK's identity is PID@HOST@ and, of some workers, the task queue.
	return slices.ContainsFunc(found, func(identity string) bool { return strings.Contains(identity+"@", "@"+host+"@") })
}

// WorkersOf is Workers for another task queue.
func (c *Client) WorkersOf(ctx context.Context, queue string) int {
	found, _ := c.pollersOf(ctx, queue)
	return len(found)
}

// Heard counts who polls the task queue, as Workers does, and says how long ago the
// youngest of their requests began. An idle worker asks about once a minute, and one
// that died is counted until its last request is older than any can last.
func (c *Client) Heard(ctx context.Context) (workers int, ago time.Duration) {
	list, _ := c.pollers(ctx, c.o.TaskQueue)
	found, ago := alive(list, time.Now())
	return len(found), ago
}

// pollersOf lists the identities of a task queue's workers, or says that Temporal
// cannot be asked.
func (c *Client) pollersOf(ctx context.Context, queue string) (found []string, ok bool) {
	list, ok := c.pollers(ctx, queue)
	found, _ = alive(list, time.Now())
	return found, ok
}

func (c *Client) pollers(ctx context.Context, queue string) (list []*taskqueuepb.PollerInfo, ok bool) {
	if c.temporal == nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, temporalTimeout)
	defer cancel()
	d, err := c.temporal.DescribeTaskQueue(ctx, queue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		return nil, false
	}
	return d.GetPollers(), true
}

// alive lists the identities of pollers that may still be there, and how long ago the
// youngest of their requests began.
func alive(list []*taskqueuepb.PollerInfo, now time.Time) (found []string, ago time.Duration) {
	ago = pollerAge
	for _, p := range list {
		since := now.Sub(p.GetLastAccessTime().AsTime())
		if since >= pollerAge {
			continue
		}
		ago = max(0, min(ago, since)) // the server's clock may be ahead
		if !slices.Contains(found, p.GetIdentity()) {
			found = append(found, p.GetIdentity())
		}
	}
	return found, ago
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// away reports whether err means that the store will be back.
func away(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() == nil && agent.CodeOf(err) == agent.CodeUnavailable
}
