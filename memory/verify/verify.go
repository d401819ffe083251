// Package verify checks a store's rows against the invariants that Spool
// promises (SPEC section 11): links, tasks, transcripts, sequence numbers,
// turns, ends of children and, where Temporal can be asked, open runs.
package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
	"github.com/spool-agents/spool/memory"
)

// The rules a Violation names. Rule 9 (a run with kills ends like one without)
// needs two runs and is no property of one store.
const (
	RuleLink     = 1  // every link event names a thread written no later than the event
	RuleCreation = 2  // every sub-thread has exactly one creating tool_call event, and each of its turns one task
	RulePairs    = 3  // each assistant call has exactly one result directly after it
	RuleSequence = 4  // seq has no gap and no repeat, message ids are unique
	RuleOpenTurn = 5  // one open turn per thread; a closed turn has exactly one done or error, an open one none
	RuleMessage  = 6  // one client message id, one user message
	RuleChildEnd = 7  // each end of a child's turn stands exactly once in its delegator
	RuleToolOnce = 8  // a tool whose result is stored was not run again
	RuleLists    = 10 // no list shows a sub-agent unless asked
	RuleOpenRun  = 11 // no open turn without an open run for more than 30 s
	RuleAgree    = 12 // what is told twice is told alike, and what other rows tell of is there, once
	RuleReadable = 13 // every row can be read
)

// DefaultGrace is how long a turn may be open without an open run.
const DefaultGrace = 30 * time.Second

// RunChecker asks Temporal about workflow ids (which are thread ids).
type RunChecker interface {
	// IsOpen reports whether the workflow id has an open run.
	IsOpen(ctx context.Context, workflowID string) (bool, error)
}

// Options of a check.
type Options struct {
	// Threads are checked with everything below them; empty means all threads.
	Threads []string
	// Temporal, if not nil, is asked about rule 11.
	Temporal RunChecker
	// Grace is waited before a turn without an open run is looked at again; it
	// is a violation if nothing changed. 0 means DefaultGrace.
	Grace time.Duration
}

// Report is the result of a check.
type Report struct {
	OK bool `json:"ok"`
	// Checked is how many threads were looked at.
	Checked    int         `json:"checked"`
	Violations []Violation `json:"violations"`
}

// Violation is one broken rule.
type Violation struct {
	Rule     int    `json:"rule"`
	ThreadID string `json:"threadId"`
	Detail   string `json:"detail"`
}

// String names the rule, the thread and what is wrong.
func (v Violation) String() string {
	return fmt.Sprintf("rule %d: %s: %s", v.Rule, v.ThreadID, v.Detail)
}

// everything is more threads than a store holds.
const everything = 1 << 30

// attempts bounds how often a check starts over because the store moved.
const attempts = 8

// Store is what a check reads.
type Store interface {
	memory.Reader
	Audit(ctx context.Context, threadID string) ([]memory.Finding, error)
}

// Check reads threads and reports what breaks a rule. The store may be in use:
// a check that found something while somebody wrote is repeated. An error
// means that the check could not be made. Safe for concurrent use.
func Check(ctx context.Context, r Store, o Options) (Report, error) {
	return steps.Get(func() Report {
		var c *check
		for range attempts {
			before := steps.Must(r.Changed(ctx))
			c = &check{ctx: ctx, byID: map[string]*rows{}, threads: r, found: []Violation{}}
			c.checkRows(o.Threads)
			if len(c.found) == 0 || before == steps.Must(r.Changed(ctx)) {
				break
			}
		}
		if o.Temporal != nil {
			c.checkRuns(o)
		}
		return Report{OK: len(c.found) == 0, Checked: len(c.all), Violations: c.found}
	})
}

// checkRows checks all rules that need the store only. A thread that is deleted meanwhile
// is left out. Of one with a row that cannot be read, that is told, and no rule that
// needs the rest is checked.
func (c *check) checkRows(ids []string) {
	for _, th := range c.threadsOf(ids) {
		if one := c.get(th.ID); one != nil {
			c.all = append(c.all, one)
		}
	}
	for _, th := range steps.Must(c.threads.Threads(c.ctx, memory.ThreadFilter{Limit: everything})) {
		parsed, err := agent.ParseThreadID(th.ID)
		if err != nil || parsed.Kind != agent.KindMain || th.Kind != agent.KindMain || th.ParentThreadID != "" {
			c.add(RuleLists, th.ID, "a list of conversations shows it")
		}
	}
	for _, one := range c.all {
		found := len(c.found)
		c.audit(one)
		switch {
		case !one.broken:
			c.thread(one)
		case len(c.found) == found && one.err != nil: // rows that an audit does not look into
			c.add(RuleReadable, one.thread.ID, "%v", one.err)
		}
	}
}

// checkRuns looks for open turns without an open run, twice.
func (c *check) checkRuns(o Options) {
	first := c.withoutRun(o)
	if len(first) == 0 {
		return
	}
	grace := cmp.Or(o.Grace, DefaultGrace)
	select {
	case <-c.ctx.Done():
		steps.Check(c.ctx.Err())
	case <-time.After(grace):
	}
	for _, t := range c.withoutRun(o) {
		if slices.Contains(first, t) {
			c.add(RuleOpenRun, t.ThreadID, "turn %s is open, but the workflow has no open run for %v", t.TurnID, grace)
		}
	}
}

func (c *check) withoutRun(o Options) (lost []memory.ThreadTurn) {
	for _, th := range c.threadsOf(o.Threads) {
		if th.OpenTurnID != "" && !steps.Must(o.Temporal.IsOpen(c.ctx, th.ID)) {
			lost = append(lost, memory.ThreadTurn{ThreadID: th.ID, TurnID: th.OpenTurnID})
		}
	}
	return lost
}

// threadsOf lists threads with their trees, or all.
func (c *check) threadsOf(ids []string) (out []agent.Thread) {
	if len(ids) == 0 {
		return steps.Must(c.threads.Threads(c.ctx, memory.ThreadFilter{All: true, Limit: everything}))
	}
	seen := map[string]bool{}
	for todo := slices.Clone(ids); len(todo) > 0; todo = todo[1:] {
		if seen[todo[0]] {
			continue
		}
		seen[todo[0]] = true
		th, err := c.threads.Thread(c.ctx, "", todo[0])
		if agent.CodeOf(err) == agent.CodeNotFound && len(out) > 0 {
			continue // deleted meanwhile
		}
		if !unreadable(c.ctx, err) {
			steps.Check(err)
		}
		th.ID = todo[0]
		out = append(out, th)
		children, err := c.threads.Children(c.ctx, th.ID)
		if agent.CodeOf(err) != agent.CodeNotFound {
			steps.Check(err)
		}
		for _, child := range children {
			todo = append(todo, child.ID)
		}
	}
	return out
}

// Repaired says what a repair did to a thread.
type Repaired struct {
	ThreadID string `json:"threadId"`
	Did      string `json:"did"`
}

// RepairRequest says what to repair: Thread with all below it, or, if it is nil, all
// trees of a user and profile (an empty user means everybody's).
type RepairRequest struct {
	Thread          *agent.Thread
	UserID, Profile string
}

// Repair mends rows: see memory.Archiver. It returns what it did; Check names what
// stays broken. One thread that cannot be read keeps no other from being mended.
func Repair(ctx context.Context, store memory.ConversationMemoryStore, r RepairRequest) ([]Repaired, error) {
	f := memory.ThreadFilter{All: true}
	if r.Thread != nil {
		f.Root = r.Thread.RootThreadID
	}
	threads, err := store.Threads(ctx, f)
	if err != nil {
		return nil, err
	}
	if r.Thread != nil {
		threads = below(threads, r.Thread.ID)
	} else {
		threads = own(threads, r)
	}
	out := []Repaired{}
	var failed []error
	for _, t := range threads {
		done, err := store.Repair(ctx, t.ID)
		if agent.CodeOf(err) == agent.CodeNotFound { // deleted meanwhile
			continue
		}
		if agent.CodeOf(err) == agent.CodeUnavailable || ctx.Err() != nil {
			return out, err
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("thread %s cannot be repaired: %w", t.ID, err))
		}
		for _, what := range done {
			out = append(out, Repaired{t.ID, what})
		}
	}
	return out, errors.Join(failed...)
}

// own leaves the trees of the user. The main thread decides whose a tree
// is: a damaged row of a sub-agent may name somebody else.
func own(threads []agent.Thread, r RepairRequest) []agent.Thread {
	if r.UserID == "" {
		return threads
	}
	mine := map[string]bool{}
	for _, t := range threads {
		mine[t.ID] = t.UserID == r.UserID && memory.InProfile(t.Profile, r.Profile)
	}
	return slices.DeleteFunc(threads, func(t agent.Thread) bool {
		of, known := mine[t.RootThreadID]
		return known && !of || !known && !mine[t.ID]
	})
}

// below leaves of a tree's threads one and what is below it.
func below(threads []agent.Thread, id string) []agent.Thread {
	keep := map[string]bool{id: true}
	for range threads { // as deep as a tree can be
		for _, t := range threads {
			keep[t.ID] = keep[t.ID] || keep[t.ParentThreadID]
		}
	}
	return slices.DeleteFunc(threads, func(t agent.Thread) bool { return !keep[t.ID] })
}
