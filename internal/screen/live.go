package screen

import (
	"encoding/json"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/terminal"
)

type event struct {
	Intent     string           `json:"intent"`
	Arguments  json.RawMessage  `json:"arguments"`
	ToolCallID string           `json:"toolCallId"`
	QuestionID string           `json:"questionId"`
	Name       string           `json:"name"`
	Status     agent.CallStatus `json:"status"`
	SubAgent   string           `json:"sub_agent_thread_id"`
	MessageID  string           `json:"messageId"`
	Usage      agent.Usage      `json:"usage"`
	Model      string           `json:"model"`
	Wait       *agent.ModelWait `json:"wait"`
	Gate       agent.Gate       `json:"gate"`
}

// happened takes one thing that happened in the conversation or below it.
func (m *model) happened(u spool.Update) tea.Cmd {
	m.cursor[u.ThreadID] = u.Cursor
	if u.Text != nil {
		m.streamed(u)
		return nil
	}
	if u.Event == nil {
		return nil
	}
	var e event
	_ = json.Unmarshal(u.Event.Data, &e) // unknown payloads are shown without detail
	if u.Event.Type == agent.EventStreamFinish {
		m.turn.usage = m.turn.usage.Add(e.Usage)
		m.cost = m.cost.Add(e.Usage)
	}
	if u.ThreadID != m.thread {
		return m.below(u, e)
	}
	return m.own(u, e)
}

func (m *model) own(u spool.Update, e event) tea.Cmd {
	switch u.Event.Type {
	case agent.EventMessageStarted:
		if m.turn.id != u.Event.TurnID {
			m.turn = turn{id: u.Event.TurnID, began: u.Event.At, agents: m.turn.agents}
			m.turn.agents = slices.DeleteFunc(m.turn.agents, func(h *helper) bool { return !h.ended.IsZero() })
		}
	case agent.EventStreamFinish:
		m.turn.model = e.Model
		m.written(e.MessageID)
	case agent.EventToolCall:
		m.turn.wait = nil
		m.live.Update(u)
		if e.SubAgent != "" {
			m.helper(e.SubAgent, "")
		} else if e.Gate == "" { // else it is shown whole where a person decides
			m.print(m.look.diff(e.Intent, e.Arguments, mostDiff)...)
		}
		m.turn.tools = append(m.turn.tools, running{e.ToolCallID, terminal.CallText(e.Intent, e.Arguments)})
		return nil
	case agent.EventToolResponse:
		m.turn.tools = slices.DeleteFunc(m.turn.tools, func(r running) bool { return r.id == e.ToolCallID })
		if e.Name == agent.ToolAskUser && e.Status == agent.CallSuccess { // its answer stands there
			return nil
		}
	case agent.EventWarning:
		m.turn.wait = e.Wait
	case agent.EventMemoryAppended:
		for _, msg := range u.Messages {
			if msg.ID == m.turn.message {
				m.turn.message, m.turn.text = "", ""
			}
			m.message(msg)
		}
		return nil
	case agent.EventApprovalRequired, agent.EventQuestionAsked: // what is asked is put
		return m.check()
	case agent.EventApprovalResponse, agent.EventQuestionAnswered:
		if _, here := m.said[e.QuestionID]; !here {
			m.live.Update(u)
		}
		return m.check()
	case agent.EventDone, agent.EventError:
		m.live.Update(u)
		m.turn = turn{agents: m.turn.agents}
		m.hint = ""
		return m.check()
	}
	m.live.Update(u)
	return nil
}

// written prints a text that is complete: its message is saved only once the tools it
// calls have run.
func (m *model) written(messageID string) {
	if messageID == m.turn.message && m.turn.text != "" {
		m.print(m.look.markdown(m.turn.text, m.width), "")
		m.said[messageID] = m.turn.text
	}
	m.turn.message, m.turn.text = "", ""
}

func (m *model) streamed(u spool.Update) {
	t := u.Text
	if u.ThreadID != m.thread {
		if h := m.helper(u.ThreadID, ""); h != nil {
			h.doing = "writes"
		}
		return
	}
	m.turn.wait = nil
	if m.turn.message != t.MessageID || m.turn.attempt != t.Attempt {
		m.turn.message, m.turn.attempt, m.turn.text = t.MessageID, t.Attempt, ""
	}
	m.turn.text = m.turn.text[:min(t.Offset, len(m.turn.text))] + t.Text
}

// helper is a sub-agent of the tree, which is added if it is not there.
func (m *model) helper(id, parent string) *helper {
	for _, h := range m.turn.agents {
		if h.id == id {
			return h
		}
	}
	h := &helper{id: id, name: id, began: time.Now(), doing: "begins"}
	if p, err := agent.ParseThreadID(id); err == nil && p.AgentType != "" {
		h.name = p.AgentType
	}
	at := len(m.turn.agents)
	for i, up := range m.turn.agents {
		if up.id == parent {
			h.depth, at = up.depth+1, i+1
		}
	}
	m.turn.agents = slices.Insert(m.turn.agents, at, h)
	return h
}

func (m *model) below(u spool.Update, e event) tea.Cmd {
	h := m.helper(u.ThreadID, "")
	h.ended = time.Time{}
	h.tokens += e.Usage.TotalTokens
	switch u.Event.Type {
	case agent.EventMessageStarted, agent.EventToolResponse:
		h.doing = "waits for the model"
	case agent.EventToolCall:
		h.doing = terminal.CallText(e.Intent, e.Arguments)
		if e.SubAgent != "" {
			m.helper(e.SubAgent, h.id)
		}
	case agent.EventApprovalRequired:
		h.doing = "waits for approval"
		return m.check()
	case agent.EventQuestionAsked:
		h.doing = "waits for an answer"
		return m.check()
	case agent.EventApprovalResponse, agent.EventQuestionAnswered:
		return m.check()
	case agent.EventDone, agent.EventError:
		h.ended, h.failed, h.doing = u.Event.At, u.Event.Type == agent.EventError, "done"
		h.tokens -= e.Usage.TotalTokens // they were counted
		if h.failed {
			h.doing = "failed"
		}
	}
	return nil
}
