package spool

import (
	"cmp"
	"context"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/client"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
	"github.com/spool-agents/spool/internal/nudge"
	"github.com/spool-agents/spool/internal/runs"
	"github.com/spool-agents/spool/internal/telemetry"
	"github.com/spool-agents/spool/internal/view"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/port"
)

// temporalTimeout bounds one request to Temporal: it only hints at what the store
// says already.
const temporalTimeout = runs.Timeout

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
	// TracerProvider and MeterProvider get spans and counts of what is sent, as those
	// of WorkerOptions do; nil = there are none.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	// Unreachable says why there is no Temporal client; it becomes part of errors and
	// notes.
	Unreachable error
}

// views shows what the client's user may see.
type views = view.Views

// Client is what people and their programs do with threads. Its methods are safe
// for concurrent use. It owns neither the store nor the Temporal client.
//
// Commands: Ask, Send, Retry, Fork, Cancel, Decide, Answer. Waiting: Wait, Follow, Watch.
// A thread: Show, ShowWith, Trace, Thread, Messages, MessagePage, Events, ToolCalls,
// ToolOutput, Tasks, TasksBelow, Turns, Spans, Sent, Status, Tail, TailTree. Lists: Threads,
// ThreadPage, Search, SubAgents, SubAgent, Approvals, Decisions, Questions, ModelWaits. Other
// users' threads and those of the user's other profiles are not found.
type Client struct {
	*views
	store    memory.ConversationMemoryStore
	temporal client.Client // nil if Temporal cannot be reached
	o        ClientOptions
	tracing  *telemetry.Sender
	lately   runs.Lately
}

// NewClient makes a client. temporal may be nil: then messages and decisions are
// stored and take effect when a worker finds them.
func NewClient(store memory.ConversationMemoryStore, temporal client.Client, o ClientOptions) *Client {
	o.TaskQueue = cmp.Or(o.TaskQueue, agent.TaskQueue(store.ID()))
	o.Namespace = cmp.Or(o.Namespace, client.DefaultNamespace)
	o.Profile = cmp.Or(o.Profile, memory.DefaultProfile)
	c := &Client{store: store, temporal: temporal, o: o, tracing: telemetry.NewSender(o.TracerProvider, o.MeterProvider)}
	c.views = view.New(store, view.Options{UserID: o.UserID, Profile: o.Profile, Link: c.WorkflowURL, Trouble: c.trouble})
	return c
}

// Store returns the store the client works on.
func (c *Client) Store() memory.ConversationMemoryStore { return c.store }

// Agents shows which sub-agents the user has, what they do and how they ended.
func (c *Client) Agents() port.AgentStateManager {
	return port.AgentStateManager{Store: c.store, UserID: c.o.UserID}
}

// Memory shows what the user's conversations remember, by keys: of one session, or of
// all if it is empty. The client's store stays open when it is closed.
func (c *Client) Memory(session string) port.MemoryPersistence {
	return port.NewStore(c.store, port.StoreOptions{UserID: c.o.UserID, Profile: c.o.Profile, Session: session})
}

// TaskQueue returns the task queue that workers of this store poll.
func (c *Client) TaskQueue() string { return c.o.TaskQueue }

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

// nudge tells a thread that the store holds something for it.
func (c *Client) nudge(ctx context.Context, t contract.NudgeTarget) error {
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

// nudgeWaiting tells a thread that a person has settled what it waited for, and
// those above it that wait with it: their time goes on.
func (c *Client) nudgeWaiting(ctx context.Context, threadID string) error {
	if err := c.nudge(ctx, contract.NudgeTarget{Thread: threadID}); err != nil {
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
			return err // an idle thread does not wait, and none above waits for it
		}
		if err := c.nudge(ctx, contract.NudgeTarget{Thread: threadID}); err != nil {
			return err
		}
	}
}

func (c *Client) unreachable(cause error) error {
	return runs.Unreachable(cmp.Or(cause, c.o.Unreachable))
}
