package view

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
	"github.com/spool-agents/spool/memory"
)

// page is how many events are read at once.
const page = 1000

// mostSpans bounds the spans of one answer.
const mostSpans = 5000

// Kinds of spans.
const (
	SpanModel    = "model"    // an attempt at a model call
	SpanWait     = "wait"     // from a failed attempt to the next
	SpanTool     = "tool"     // a tool call
	SpanAgent    = "agent"    // a delegation: the sub-agent's work
	SpanApproval = "approval" // a person was asked to approve
	SpanQuestion = "question" // a person was asked something
	SpanLost     = "lost"     // a worker was lost, and another one went on: a moment
)

// Spans is how a turn, with the sub-agents that it called, spent its time.
type Spans struct {
	Turn *memory.Turn `json:"turn,omitempty"` // nil: the thread has had none
	// Spans are in the order of a tree: each stands behind the one it is part of, and
	// those of one level by their start. They overlap where work was parallel.
	Spans []Span `json:"spans"`
	// More means that spans were left out, as there are too many.
	More bool `json:"more,omitempty"`
}

// Span is a stretch of a turn.
type Span struct {
	Kind string `json:"kind"`
	// ID is that of the call, the approval or the question, or made of turn and step. It
	// stays the same while the span goes on.
	ID string `json:"id"`
	// Parent is the span that it is part of; empty = of the turn itself.
	Parent   string `json:"parent,omitempty"`
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
	// Name is that of the tool, the agent or the model, Text what it was asked to do, or
	// why it waits.
	Name string `json:"name,omitempty"`
	Text string `json:"text,omitempty"`
	// Start and End are by the store's clock; End is missing while it lasts.
	Start      time.Time  `json:"startAt"`
	End        *time.Time `json:"endAt,omitempty"`
	DurationMs int64      `json:"durationMs"`
	// Status is that of the call, a decision, a model call's reason to finish, or the
	// code of what a failed attempt ended with.
	Status string       `json:"status,omitempty"`
	Usage  *agent.Usage `json:"usage,omitempty"`
	// Step and Attempt are those of a model call, counted from 1.
	Step    int `json:"step,omitempty"`
	Attempt int `json:"attempt,omitempty"`
	// SubAgentThreadID is the thread that did the work of a delegation.
	SubAgentThreadID string `json:"subAgentThreadId,omitempty"`
}

// Spans reads the spans of a turn, or of a thread's last one, down to the last
// sub-agent.
func (v *Views) Spans(ctx context.Context, threadID, turnID string) (Spans, error) {
	return read(ctx, v, func(r reading) Spans {
		out := Spans{Spans: []Span{}}
		r.thread(threadID)
		if turnID == "" {
			last := steps.Must(v.store.LastTurn(ctx, threadID))
			if last == nil {
				return out
			}
			turnID = last.ID
		}
		out.Turn = new(r.turnOf(threadID, turnID))
		r.spansOf(out.Turn, "", &out)
		return out
	})
}

// spansOf adds the spans of a turn below one of them, and those of its sub-agents.
func (r reading) spansOf(turn *memory.Turn, parent string, out *Spans) {
	line := spans{turn: turn.ID, thread: turn.ThreadID, parent: parent, open: map[string]int{}, step: 1, attempt: 1}
	r.readSpans(turn, &line)
	slices.SortStableFunc(line.list, func(a, b Span) int { return a.Start.Compare(b.Start) })
	for _, s := range line.list {
		if len(out.Spans) >= mostSpans {
			out.More = true
			return
		}
		at := len(out.Spans)
		out.Spans = append(out.Spans, s)
		if s.SubAgentThreadID == "" {
			continue
		}
		turns := steps.Must(r.store.TurnsOf(r.ctx, s.SubAgentThreadID))
		for i := range turns {
			if turns[i].DelegatorCall == s.ID {
				out.Spans[at].whole(&turns[i])
				r.spansOf(&turns[i], s.ID, out)
			}
		}
	}
}

// whole makes the span of a delegation as long as the work in the background: its call
// was over when that had begun.
func (s *Span) whole(child *memory.Turn) {
	s.Usage = &child.Usage
	if !child.Background {
		return
	}
	s.End, s.DurationMs, s.Status = child.ClosedAt, 0, string(agent.CallRunning)
	if child.ClosedAt != nil {
		s.DurationMs, s.Status = child.ClosedAt.Sub(s.Start).Milliseconds(), string(child.Outcome)
	}
}

// readSpans reads the log of a turn.
func (r reading) readSpans(turn *memory.Turn, line *spans) {
	for after := r.before(turn.ThreadID, turn.OpenedAt); ; {
		events := steps.Must(r.store.Events(r.ctx, turn.ThreadID, after, page))
		for i := range events {
			if line.add(&events[i]) {
				return
			}
		}
		if len(events) < page {
			line.thinking()
			return
		}
		after = events[len(events)-1].Seq
	}
}

// before finds a seq behind which the log of a turn begins that opened at a time.
// Clocks are not exact, so that it looks a little further back.
func (r reading) before(threadID string, opened time.Time) int64 {
	marks := steps.Must(r.store.Mark(r.ctx, []string{threadID}))
	if len(marks) == 0 {
		return 0
	}
	low, high := int64(0), marks[0].LastEvent
	for low < high {
		mid := (low + high) / 2
		e := steps.Must(r.store.Events(r.ctx, threadID, mid, 1))
		if len(e) == 1 && e[0].At.Before(opened.Add(-time.Minute)) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// spans collects the spans of a turn from its events.
type spans struct {
	turn, thread, parent string
	list                 []Span
	open                 map[string]int // by id
	// step and attempt are those of the model call under way or next.
	step, attempt int
	// since is when the turn had what its next model call needs.
	since *time.Time
	// wait is the span of a wait that lasts, and until when.
	wait  *Span
	until time.Time
}

type spanPayload struct {
	Intent       string          `json:"intent"`
	Arguments    json.RawMessage `json:"arguments"`
	Agent        string          `json:"agent"`
	Text         string          `json:"text"`
	MessageID    string          `json:"messageId"`
	Model        string          `json:"model"`
	Code         string          `json:"code"`
	Message      string          `json:"message"`
	ThreadID     string          `json:"threadId"`
	ToolCallID   string          `json:"toolCallId"`
	ApprovalID   string          `json:"approvalId"`
	QuestionID   string          `json:"questionId"`
	SubAgent     string          `json:"sub_agent_thread_id"`
	Status       string          `json:"status"`
	Decision     string          `json:"decision"`
	State        string          `json:"state"`
	FinishReason string          `json:"finishReason"`
	Usage        *agent.Usage    `json:"usage"`

	Wait *agent.ModelWait `json:"wait"`
}

// add takes an event and reports whether it was the turn's last.
func (s *spans) add(e *agent.Event) bool {
	if e.TurnID != s.turn {
		return false
	}
	var p spanPayload
	_ = json.Unmarshal(e.Data, &p) // other payloads make no spans
	if p.ThreadID != "" && p.ThreadID != e.ThreadID {
		return false // what a sub-agent asks is in the log of the root, too
	}
	switch e.Type {
	case agent.EventWarning:
		s.warned(e, &p)
	case agent.EventMessageStarted:
		s.since = &e.At
	case agent.EventMemoryAppended:
		if len(s.open) == 0 {
			s.since = &e.At
		}
	case agent.EventStreamFinish:
		s.answered(e, &p)
	case agent.EventToolCall:
		s.begin(calledSpan(e, &p))
	case agent.EventToolResponse:
		s.end(p.ToolCallID, e.At, p.Status)
	case agent.EventApprovalRequired:
		s.begin(Span{Kind: SpanApproval, ID: p.ApprovalID, Name: p.Agent, Start: e.At})
	case agent.EventApprovalResponse:
		s.end(p.ApprovalID, e.At, p.Decision)
	case agent.EventQuestionAsked:
		s.begin(Span{Kind: SpanQuestion, ID: p.QuestionID, Name: p.Agent, Text: p.Text, Start: e.At})
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

// calledSpan is the span of a call: of a tool, or of a sub-agent's work.
func calledSpan(e *agent.Event, p *spanPayload) Span {
	span := Span{Kind: SpanTool, ID: p.ToolCallID, Name: p.Intent, Text: brief(string(p.Arguments)), Start: e.At, Status: string(agent.CallRunning), SubAgentThreadID: p.SubAgent}
	if p.SubAgent == "" {
		return span
	}
	var task struct{ Agent, Task string }
	_ = json.Unmarshal(p.Arguments, &task) // those of a delegation that was opened are right
	span.Kind, span.Name, span.Text = SpanAgent, task.Agent, brief(task.Task)
	return span
}

// briefly bounds a text beside a span, in characters.
const briefly = 200

func brief(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > briefly {
		return string(r[:briefly-1]) + "…"
	}
	return text
}

// warned takes what a turn waits for, and that a worker was lost.
func (s *spans) warned(e *agent.Event, p *spanPayload) {
	switch {
	case p.Wait != nil && p.Wait.ThreadID == e.ThreadID:
		if p.Wait.Held { // no call was made
			s.waited(e.At)
			s.since = nil
		} else {
			s.model(Span{End: &e.At, Status: p.Wait.Code, Text: brief(p.Wait.Reason)})
		}
		s.wait, s.until = &Span{Kind: SpanWait, ID: fmt.Sprintf("wait:%s:%d", s.turn, e.Seq), Start: e.At, Status: p.Wait.Code, Text: brief(p.Wait.Reason)}, p.Wait.Until
	case p.Code == agent.WarnWorkerLost:
		if p.ToolCallID == "" {
			s.model(Span{End: &e.At, Status: SpanLost})
			s.since = &e.At
		}
		lost := Span{Kind: SpanLost, ID: fmt.Sprintf("lost:%s:%d", s.turn, e.Seq), Text: p.Message, Start: e.At, End: &e.At}
		s.append(lost)
		if p.ToolCallID != "" {
			s.list[len(s.list)-1].Parent = p.ToolCallID
		}
	}
}

// answered takes the reply of a model.
func (s *spans) answered(e *agent.Event, p *spanPayload) {
	if _, step, ok := strings.Cut(p.MessageID, "."); ok {
		if n, err := strconv.Atoi(step); err == nil {
			s.step = n
		}
	}
	s.model(Span{End: &e.At, Name: p.Model, Status: p.FinishReason, Usage: p.Usage})
	s.step, s.attempt = s.step+1, 1
}

// model adds the attempt at a model call that ended as the span says.
func (s *spans) model(span Span) {
	s.waited(*span.End)
	if s.since != nil {
		span.Kind, span.Start = SpanModel, *s.since
		span.DurationMs = span.End.Sub(span.Start).Milliseconds()
		s.append(s.numbered(span))
		s.attempt++
	}
	s.since = nil
}

// numbered gives a span of a model call its number.
func (s *spans) numbered(span Span) Span {
	span.ID, span.Step, span.Attempt = fmt.Sprintf("model:%s:%d:%d", s.turn, s.step, s.attempt), s.step, s.attempt
	return span
}

func (s *spans) append(span Span) {
	span.ThreadID, span.TurnID, span.Parent = s.thread, s.turn, s.parent
	s.list = append(s.list, span)
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
	s.append(*s.wait)
	s.since, s.wait = &at, nil
}

func (s *spans) begin(span Span) {
	if _, known := s.open[span.ID]; known || span.ID == "" {
		return
	}
	s.open[span.ID] = len(s.list)
	s.append(span)
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
		s.append(*s.wait)
		return
	} else if s.wait != nil {
		s.waited(now)
	}
	if s.since != nil && len(s.open) == 0 {
		s.append(s.numbered(Span{Kind: SpanModel, Start: *s.since}))
	}
}
