// Package verify checks a store's rows against the invariants that Spool
// promises (SPEC section 11): links, tasks, transcripts, sequence numbers,
// turns, ends of children and, where Temporal can be asked, open runs.
package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spool-agents/spool/agent"
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
	RuleAgree    = 12 // what is told twice is told alike, and what other rows tell of is there
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
	var found []Violation
	var checked int
	for range attempts {
		before, err := r.Changed(ctx)
		if err != nil {
			return Report{}, err
		}
		found, checked, err = checkRows(ctx, r, o)
		if err != nil {
			return Report{}, err
		}
		after, err := r.Changed(ctx)
		if err != nil {
			return Report{}, err
		}
		if len(found) == 0 || before == after {
			break
		}
	}
	if o.Temporal != nil {
		lost, err := checkRuns(ctx, r, o)
		if err != nil {
			return Report{}, err
		}
		found = append(found, lost...)
	}
	if found == nil {
		found = []Violation{}
	}
	return Report{OK: len(found) == 0, Checked: checked, Violations: found}, nil
}

// checkRows checks all rules that need the store only, and says of how many
// threads. A thread that is deleted meanwhile is left out. Of one with a row that
// cannot be read, that is told, and no rule that needs the rest is checked.
func checkRows(ctx context.Context, r Store, o Options) ([]Violation, int, error) {
	threads, err := threadsOf(ctx, r, o.Threads)
	if err != nil {
		return nil, 0, err
	}
	c := &check{byID: map[string]*rows{}, threads: r}
	for _, th := range threads {
		one, err := c.get(ctx, th.ID)
		if err != nil {
			return nil, 0, err
		}
		if one != nil {
			c.all = append(c.all, one)
		}
	}
	listed, err := r.Threads(ctx, memory.ThreadFilter{Limit: everything})
	if err != nil {
		return nil, 0, err
	}
	for _, th := range listed {
		parsed, err := agent.ParseThreadID(th.ID)
		if err != nil || parsed.Kind != agent.KindMain || th.Kind != agent.KindMain || th.ParentThreadID != "" {
			c.add(RuleLists, th.ID, "a list of conversations shows it")
		}
	}
	for _, one := range c.all {
		if err := c.audit(ctx, one); err != nil {
			return nil, 0, err
		}
		if one.broken {
			continue
		}
		if err := c.thread(ctx, one); err != nil {
			return nil, 0, err
		}
	}
	return c.found, len(c.all), nil
}

// checkRuns looks for open turns without an open run, twice.
func checkRuns(ctx context.Context, r memory.Reader, o Options) ([]Violation, error) {
	first, err := withoutRun(ctx, r, o)
	if err != nil || len(first) == 0 {
		return nil, err
	}
	grace := o.Grace
	if grace == 0 {
		grace = DefaultGrace
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(grace):
	}
	second, err := withoutRun(ctx, r, o)
	if err != nil {
		return nil, err
	}
	var found []Violation
	for _, t := range second {
		if slices.Contains(first, t) {
			found = append(found, Violation{RuleOpenRun, t.ThreadID,
				fmt.Sprintf("turn %s is open, but the workflow has no open run for %v", t.TurnID, grace)})
		}
	}
	return found, nil
}

func withoutRun(ctx context.Context, r memory.Reader, o Options) ([]memory.ThreadTurn, error) {
	threads, err := threadsOf(ctx, r, o.Threads)
	if err != nil {
		return nil, err
	}
	var lost []memory.ThreadTurn
	for _, th := range threads {
		if th.OpenTurnID == "" {
			continue
		}
		open, err := o.Temporal.IsOpen(ctx, th.ID)
		if err != nil {
			return nil, err
		}
		if !open {
			lost = append(lost, memory.ThreadTurn{ThreadID: th.ID, TurnID: th.OpenTurnID})
		}
	}
	return lost, nil
}

// threadsOf lists threads with their trees, or all.
func threadsOf(ctx context.Context, r memory.Reader, ids []string) ([]agent.Thread, error) {
	if len(ids) == 0 {
		return r.Threads(ctx, memory.ThreadFilter{All: true, Limit: everything})
	}
	var out []agent.Thread
	seen := map[string]bool{}
	for todo := slices.Clone(ids); len(todo) > 0; todo = todo[1:] {
		if seen[todo[0]] {
			continue
		}
		seen[todo[0]] = true
		th, err := r.Thread(ctx, "", todo[0])
		if agent.CodeOf(err) == agent.CodeNotFound && len(out) > 0 {
			continue // deleted meanwhile
		}
		if err != nil && !unreadable(ctx, err) {
			return nil, err
		}
		th.ID = todo[0]
		out = append(out, th)
		children, err := r.Children(ctx, th.ID)
		if err != nil && agent.CodeOf(err) != agent.CodeNotFound {
			return nil, err
		}
		for _, c := range children {
			todo = append(todo, c.ID)
		}
	}
	return out, nil
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
