// Package view shows what a store holds as one user may see it: threads with all that
// belongs to them, trees, turns, and what waits for people.
package view

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
	"github.com/spool-agents/spool/internal/follow"
	"github.com/spool-agents/spool/memory"
)

// Options say whose view it is.
type Options struct {
	// UserID bounds what is read, Profile a user's reading to its own. An empty user
	// sees everything.
	UserID, Profile string
	// Link is the address of a thread in Temporal's web UI, "" if there is none.
	Link func(threadID string) string
	// Trouble says why the run of a thread's open turn does not advance, "" if it does.
	Trouble func(ctx context.Context, threadID string) string
}

// Views reads a store. What its user may not see is not found. Its methods are safe
// for concurrent use.
type Views struct {
	store memory.Reader
	o     Options
}

// New makes the views of a store.
func New(store memory.Reader, o Options) *Views {
	if o.UserID == "" {
		o.Profile = ""
	}
	return &Views{store: store, o: o}
}

// reading is one reading for a person, of several parts. It ends at its first error
// (package steps).
type reading struct {
	*Views
	ctx context.Context
}

func read[T any](ctx context.Context, v *Views, f func(r reading) T) (T, error) {
	return steps.Get(func() T { return f(reading{v, ctx}) })
}

func (r reading) thread(id string) agent.Thread { return steps.Must(r.Thread(r.ctx, id)) }

// turnOf is a turn that has to be the thread's.
func (r reading) turnOf(threadID, turnID string) memory.Turn {
	turn, there := steps.Found(r.store.Turn(r.ctx, turnID))
	if !there || turn.ThreadID != threadID {
		steps.Check(noTurn(threadID, turnID))
	}
	return turn
}

func noTurn(threadID, turnID string) error {
	return agent.Errorf(agent.CodeNotFound, "thread %s has no turn %s", threadID, turnID)
}

// listOf is a list of what a thread has that is there; nil where it is not is empty.
func listOf[T any](ctx context.Context, v *Views, threadID string, read func(t agent.Thread) ([]T, error)) ([]T, error) {
	t, err := v.Thread(ctx, threadID)
	if err != nil {
		return nil, err
	}
	return list(read(t))
}

// Thread reads a thread's own record.
func (v *Views) Thread(ctx context.Context, threadID string) (agent.Thread, error) {
	t, err := v.store.Thread(ctx, v.o.UserID, threadID)
	if err == nil && !memory.InProfile(t.Profile, v.o.Profile) {
		return agent.Thread{}, agent.Errorf(agent.CodeNotFound, "thread %q does not exist", threadID)
	}
	return t, err
}

// Threads lists threads, newest activity first; sub-agents only with f.All.
func (v *Views) Threads(ctx context.Context, f memory.ThreadFilter) ([]agent.Thread, error) {
	if f.UserID == "" {
		f.UserID = v.o.UserID
	}
	if f.Profile == "" {
		f.Profile = v.o.Profile
	}
	return list(v.store.Threads(ctx, f))
}

// ThreadPage lists up to limit threads behind the cursor of an earlier page
// (empty: from the start), and the cursor of the next page, if there is one.
func (v *Views) ThreadPage(ctx context.Context, f memory.ThreadFilter, after string, limit int) (threads []agent.Thread, next string, err error) {
	if f.Before, f.AfterID, err = parsePage(after); err != nil {
		return nil, "", err
	}
	f.Limit = limit + 1
	threads, err = v.Threads(ctx, f)
	if err != nil || len(threads) <= limit {
		return threads, "", err
	}
	last := threads[limit-1]
	return threads[:limit], strconv.FormatInt(last.UpdatedAt.UnixMilli(), 10) + ":" + last.ID, nil
}

// CheckPage checks the cursor of a page of threads.
func CheckPage(after string) error {
	_, _, err := parsePage(after)
	return err
}

func parsePage(after string) (at time.Time, id string, err error) {
	if after == "" {
		return at, "", nil
	}
	ms, id, _ := strings.Cut(after, ":")
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil || n <= 0 || id == "" {
		return at, "", agent.Errorf(agent.CodeInvalid, "after %q is not valid: use the cursor that the list before has named", after)
	}
	return time.UnixMilli(n), id, nil
}

// Search finds the user's conversations by topic and text, the newest first.
func (v *Views) Search(ctx context.Context, text string) ([]memory.Found, error) {
	return list(v.store.Search(ctx, v.o.UserID, v.o.Profile, text))
}

// Messages reads up to limit messages of a thread with seq > after, in order.
// limit 0 reads all.
func (v *Views) Messages(ctx context.Context, threadID string, after int64, limit int) ([]agent.Message, error) {
	return listOf(ctx, v, threadID, func(t agent.Thread) ([]agent.Message, error) { return v.messages(ctx, t, after, limit) })
}

func (v *Views) messages(ctx context.Context, t agent.Thread, after int64, limit int) ([]agent.Message, error) {
	out, err := list(v.store.Messages(ctx, t.ID, after, max(0, limit)))
	for i := range out {
		out[i].SubAgentID = subAgentID(t)
	}
	return out, err
}

// subAgentID is the id of a sub-agent's thread, "" of another one.
func subAgentID(t agent.Thread) string {
	if t.Kind == agent.KindSubAgent {
		return t.ID
	}
	return ""
}

// Events reads up to limit entries of a thread's log with seq > after, in order.
// limit 0 reads all.
func (v *Views) Events(ctx context.Context, threadID string, after int64, limit int) ([]agent.Event, error) {
	return listOf(ctx, v, threadID, func(agent.Thread) ([]agent.Event, error) { return v.store.Events(ctx, threadID, after, max(0, limit)) })
}

// Tasks lists a thread's tasks.
func (v *Views) Tasks(ctx context.Context, threadID string) ([]agent.Task, error) {
	return listOf(ctx, v, threadID, func(agent.Thread) ([]agent.Task, error) { return v.store.Tasks(ctx, threadID) })
}

// TasksBelow lists the tasks of a thread and of all below it, thread by thread, the
// parents first.
func (v *Views) TasksBelow(ctx context.Context, threadID string) ([]agent.Task, error) {
	return read(ctx, v, func(r reading) []agent.Task {
		out, t := []agent.Task{}, r.thread(threadID)
		for _, one := range append([]agent.Thread{t}, steps.Must(follow.Below(ctx, v.store, t))...) {
			out = append(out, steps.Must(v.store.Tasks(ctx, one.ID))...)
		}
		return out
	})
}

// Turns lists the turns of a thread, oldest first.
func (v *Views) Turns(ctx context.Context, threadID string) ([]memory.Turn, error) {
	return listOf(ctx, v, threadID, func(agent.Thread) ([]memory.Turn, error) { return v.store.TurnsOf(ctx, threadID) })
}

// ToolCalls lists a thread's tool calls.
func (v *Views) ToolCalls(ctx context.Context, threadID string) ([]agent.ToolCall, error) {
	return listOf(ctx, v, threadID, func(t agent.Thread) ([]agent.ToolCall, error) { return callsOf(t)(v.store.ToolCalls(ctx, t.ID)) })
}

// callsOf makes a list of a thread's calls.
func callsOf(t agent.Thread) func([]agent.ToolCall, error) ([]agent.ToolCall, error) {
	return func(calls []agent.ToolCall, err error) ([]agent.ToolCall, error) {
		for i := range calls {
			calls[i].SubAgentID = subAgentID(t)
		}
		return list(calls, err)
	}
}

// ToolCall reads one call.
func (v *Views) ToolCall(ctx context.Context, callID string) (agent.ToolCall, error) {
	call, err := v.store.ToolCall(ctx, callID)
	var t agent.Thread
	if err == nil {
		t, err = v.Thread(ctx, call.ThreadID)
	}
	if agent.CodeOf(err) == agent.CodeNotFound {
		return agent.ToolCall{}, agent.Errorf(agent.CodeNotFound, "tool call %q does not exist", callID)
	}
	call.SubAgentID = subAgentID(t)
	return call, err
}

// ToolOutput is the whole output of a call, also where the model got only a part of
// it.
func (v *Views) ToolOutput(ctx context.Context, callID string) (string, error) {
	if _, err := v.ToolCall(ctx, callID); err != nil {
		return "", err
	}
	return v.store.ToolOutput(ctx, callID)
}

// SubAgents lists the sub-agents of a chat, named by its main thread, at any
// depth and in order of creation.
func (v *Views) SubAgents(ctx context.Context, chatID string) ([]agent.SubAgent, error) {
	return read(ctx, v, func(r reading) []agent.SubAgent {
		out := []agent.SubAgent{}
		for _, t := range slices.Backward(steps.Must(v.Threads(ctx, memory.ThreadFilter{All: true, Root: r.chat(chatID).ID}))) {
			if t.Kind == agent.KindSubAgent {
				out = append(out, agent.SubAgentOf(t))
			}
		}
		return out
	})
}

// SubAgent returns a sub-agent of a chat, named by its thread id or agent id.
func (v *Views) SubAgent(ctx context.Context, chatID, id string) (agent.SubAgent, error) {
	return read(ctx, v, func(r reading) agent.SubAgent {
		chat := r.chat(chatID)
		t, there := steps.Found(v.Thread(ctx, agent.ThreadOfAgent(id)))
		if !there || t.RootThreadID != chat.ID {
			steps.Refuse(agent.CodeNotFound, "chat %q has no sub-agent %q", chatID, id)
		}
		return agent.SubAgentOf(t)
	})
}

func (r reading) chat(chatID string) agent.Thread {
	t := r.thread(chatID)
	if t.Kind != agent.KindMain {
		steps.Refuse(agent.CodeNotFound, "chat %q does not exist", chatID)
	}
	return t
}

// Tail returns the cursor of a thread's last event: following from it delivers only
// what is new. An unknown thread has none yet and gives the beginning.
func (v *Views) Tail(ctx context.Context, threadID string) (string, error) {
	if _, err := v.Thread(ctx, threadID); err != nil {
		return "", unlessMissing(err)
	}
	tails, err := follow.Tails(ctx, v.store, threadID)
	return tails[threadID], err
}

// TailTree returns the Tail of a thread and of all its descendants, by thread id.
func (v *Views) TailTree(ctx context.Context, threadID string) (map[string]string, error) {
	t, err := v.Thread(ctx, threadID)
	if err != nil {
		return map[string]string{}, unlessMissing(err)
	}
	below, err := follow.Below(ctx, v.store, t)
	if err != nil {
		return nil, err
	}
	ids := []string{t.ID}
	for _, child := range below {
		ids = append(ids, child.ID)
	}
	return follow.Tails(ctx, v.store, ids...)
}

func unlessMissing(err error) error {
	if agent.CodeOf(err) == agent.CodeNotFound {
		return nil
	}
	return err
}

// list is a list that is there even if it is empty, as JSON wants it.
func list[T any](l []T, err error) ([]T, error) {
	if l == nil && err == nil {
		l = []T{}
	}
	return l, err
}
