package view

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// page is how many events are read at once.
const page = 1000

// Kinds of spans.
const (
	SpanModel    = "model"    // an attempt at a model call
	SpanWait     = "wait"     // from a failed attempt to the next
	SpanTool     = "tool"     // a tool call
	SpanAgent    = "agent"    // a delegation: the sub-agent's work
	SpanApproval = "approval" // a person was asked to approve
	SpanQuestion = "question" // a person was asked something
)

// Timeline is how a turn spent its time.
type Timeline struct {
	Turn memory.Turn `json:"turn"`
	// Spans are in order of their start; they overlap where work was parallel.
	Spans []Span `json:"spans"`
}

// Span is a stretch of a turn.
type Span struct {
	Kind string `json:"kind"`
	// ID is that of the call, the approval or the question; a model call has none.
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
	// Start and End are by the store's clock; End is missing while it lasts.
	Start      time.Time  `json:"startAt"`
	End        *time.Time `json:"endAt,omitempty"`
	DurationMs int64      `json:"durationMs"`
	// Status is that of the call, a decision, a model call's reason to finish, or the
	// code of what a failed attempt ended with.
	Status string       `json:"status,omitempty"`
	Usage  *agent.Usage `json:"usage,omitempty"`
	// SubAgentThreadID is the thread that did the work of a delegation.
	SubAgentThreadID string `json:"subAgentThreadId,omitempty"`
}

// Timeline reads the spans of a turn from the thread's log.
func (v *Views) Timeline(ctx context.Context, threadID, turnID string) (Timeline, error) {
	if _, err := v.Thread(ctx, threadID); err != nil {
		return Timeline{}, err
	}
	turn, err := v.store.Turn(ctx, turnID)
	if agent.CodeOf(err) == agent.CodeNotFound || err == nil && turn.ThreadID != threadID {
		return Timeline{}, agent.Errorf(agent.CodeNotFound, "thread %s has no turn %s", threadID, turnID)
	}
	if err != nil {
		return Timeline{}, err
	}
	after, err := v.before(ctx, threadID, turn.OpenedAt)
	if err != nil {
		return Timeline{}, err
	}
	line := spans{turn: turnID, open: map[string]int{}}
	for {
		events, err := v.store.Events(ctx, threadID, after, page)
		if err != nil {
			return Timeline{}, err
		}
		for i := range events {
			if line.add(&events[i]) {
				return Timeline{Turn: turn, Spans: line.sorted()}, nil
			}
		}
		if len(events) < page {
			line.thinking()
			return Timeline{Turn: turn, Spans: line.sorted()}, nil
		}
		after = events[len(events)-1].Seq
	}
}

// before finds a seq behind which the log of a turn begins that opened at a time.
// Clocks are not exact, so that it looks a little further back.
func (v *Views) before(ctx context.Context, threadID string, opened time.Time) (int64, error) {
	marks, err := v.store.Mark(ctx, []string{threadID})
	if err != nil || len(marks) == 0 {
		return 0, err
	}
	low, high := int64(0), marks[0].LastEvent
	for low < high {
		mid := (low + high) / 2
		e, err := v.store.Events(ctx, threadID, mid, 1)
		if err != nil {
			return 0, err
		}
		if len(e) == 1 && e[0].At.Before(opened.Add(-time.Minute)) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, nil
}

// spans collects the spans of a turn from its events.
type spans struct {
	turn string
	list []Span
	open map[string]int // by id
	// since is when the turn had what its next model call needs.
	since *time.Time
	// wait is the span of a wait that lasts, and until when.
	wait  *Span
	until time.Time
}

// spanPayload has the parts of events that make spans.
type spanPayload struct {
	Intent       string       `json:"intent"`
	Name         string       `json:"name"`
	Agent        string       `json:"agent"`
	ToolCallID   string       `json:"toolCallId"`
	ApprovalID   string       `json:"approvalId"`
	QuestionID   string       `json:"questionId"`
	SubAgent     string       `json:"sub_agent_thread_id"`
	Status       string       `json:"status"`
	Decision     string       `json:"decision"`
	State        string       `json:"state"`
	FinishReason string       `json:"finishReason"`
	Usage        *agent.Usage `json:"usage"`

	Wait *agent.ModelWait `json:"wait"`
}

// add takes an event and reports whether it was the turn's last.
func (s *spans) add(e *agent.Event) bool {
	if e.TurnID != s.turn {
		return false
	}
	var p spanPayload
	_ = json.Unmarshal(e.Data, &p) // other payloads make no spans
	switch e.Type {
	case agent.EventWarning:
		if p.Wait != nil && p.Wait.ThreadID == e.ThreadID {
			if p.Wait.Held { // no call was made
				s.waited(e.At)
				s.since = nil
			} else {
				s.model(e.At, p.Wait.Code, nil)
			}
			s.wait, s.until = &Span{Kind: SpanWait, Start: e.At, Status: p.Wait.Code}, p.Wait.Until
		}
	case agent.EventMessageStarted:
		s.since = &e.At
	case agent.EventMemoryAppended:
		if len(s.open) == 0 {
			s.since = &e.At
		}
	case agent.EventStreamFinish:
		s.model(e.At, p.FinishReason, p.Usage)
	case agent.EventToolCall:
		kind := SpanTool
		if p.SubAgent != "" {
			kind = SpanAgent
		}
		s.begin(p.ToolCallID, Span{Kind: kind, ID: p.ToolCallID, Name: p.Intent, Start: e.At, Status: string(agent.CallRunning), SubAgentThreadID: p.SubAgent})
	case agent.EventToolResponse:
		s.end(p.ToolCallID, e.At, p.Status)
	case agent.EventApprovalRequired:
		s.begin(p.ApprovalID, Span{Kind: SpanApproval, ID: p.ApprovalID, Name: p.Agent, Start: e.At})
	case agent.EventApprovalResponse:
		s.end(p.ApprovalID, e.At, p.Decision)
	case agent.EventQuestionAsked:
		s.begin(p.QuestionID, Span{Kind: SpanQuestion, ID: p.QuestionID, Name: p.Agent, Start: e.At})
	case agent.EventQuestionAnswered:
		s.end(p.QuestionID, e.At, p.State)
	case agent.EventDone, agent.EventError:
		s.waited(e.At)
		for id := range s.open { // what the turn left
			s.end(id, e.At, "")
		}
		return true
	}
	return false
}

// model adds the attempt at a model call that ended then.
func (s *spans) model(at time.Time, status string, usage *agent.Usage) {
	s.waited(at)
	if s.since != nil {
		s.list = append(s.list, Span{Kind: SpanModel, Start: *s.since, End: &at, DurationMs: at.Sub(*s.since).Milliseconds(), Status: status, Usage: usage})
	}
	s.since = nil
}

// waited ends a wait whose time had come by then, or that ended with its turn.
func (s *spans) waited(at time.Time) {
	if s.wait == nil {
		return
	}
	if s.until.Before(at) {
		at = s.until
	}
	s.wait.End, s.wait.DurationMs = &at, at.Sub(s.wait.Start).Milliseconds()
	s.list = append(s.list, *s.wait)
	s.since, s.wait = &at, nil
}

func (s *spans) begin(id string, span Span) {
	if _, known := s.open[id]; known || id == "" {
		return
	}
	s.open[id] = len(s.list)
	s.list = append(s.list, span)
}

func (s *spans) end(id string, at time.Time, status string) {
	i, known := s.open[id]
	if !known {
		return
	}
	delete(s.open, id)
	s.list[i].End, s.list[i].DurationMs = &at, at.Sub(s.list[i].Start).Milliseconds()
	if status != "" {
		s.list[i].Status = status
	}
}

// thinking adds the model call that an open turn makes, or waits for, now.
func (s *spans) thinking() {
	if now := time.Now(); s.wait != nil && now.Before(s.until) {
		s.list = append(s.list, *s.wait)
		return
	} else if s.wait != nil {
		s.waited(now)
	}
	if s.since != nil && len(s.open) == 0 {
		s.list = append(s.list, Span{Kind: SpanModel, Start: *s.since})
	}
}

func (s *spans) sorted() []Span {
	slices.SortStableFunc(s.list, func(a, b Span) int { return a.Start.Compare(b.Start) })
	if s.list == nil {
		return []Span{}
	}
	return s.list
}
