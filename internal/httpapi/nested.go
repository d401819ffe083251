package httpapi

import (
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// The collections of a user: chats, and in each its messages, tasks and
// sub-agents. A chat is a main thread. What is another user's does not exist.

// owns refuses the paths of other users.
func (c *call) owns() error {
	if c.path("user") != c.user {
		return agent.Errorf(agent.CodeNotFound, "user %q does not exist", c.path("user"))
	}
	return nil
}

// chatID is the chat that the path names.
func (c *call) chatID() (string, error) {
	if err := c.owns(); err != nil {
		return "", err
	}
	id := c.path("chatId")
	if p, err := agent.ParseThreadID(id); err != nil || p.Kind != agent.KindMain {
		return "", agent.Errorf(agent.CodeNotFound, "chat %q does not exist (in a path, write the slash of SESSION/CONVERSATION as %%2F)", id)
	}
	return id, nil
}

// chatList is a page of chats.
type chatList struct {
	Chats []agent.Thread `json:"chats"`
	Next  string         `json:"next,omitempty"`
}

func (s *Server) chats(c *call) error {
	if err := c.owns(); err != nil {
		return err
	}
	q := c.query()
	after, limit := q.text("after"), q.number("limit", defaultPage, 1, maxPage)
	if err := q.check(); err != nil {
		return err
	}
	list, next, err := c.client.ThreadPage(c.r.Context(), memory.ThreadFilter{}, after, int(limit))
	if err != nil {
		return err
	}
	return c.answer(chatList{list, next})
}

func (s *Server) chat(c *call) error {
	id, err := c.chatID()
	if err != nil {
		return err
	}
	v, err := c.client.Thread(c.r.Context(), id)
	if err != nil {
		return err
	}
	return c.answer(v)
}

func (s *Server) chatMessages(c *call) error {
	id, err := c.chatID()
	if err != nil {
		return err
	}
	return s.messagesOf(c, id)
}

// chatSend is the one write here: a message of the user.
func (s *Server) chatSend(c *call) error {
	id, err := c.chatID()
	if err != nil {
		return err
	}
	var m struct {
		Role      agent.Role      `json:"role,omitempty"`
		MessageID string          `json:"messageId,omitempty"`
		Content   agent.Content   `json:"content"`
		WhenBusy  memory.WhenBusy `json:"whenBusy,omitempty"`
	}
	if err := c.body(&m); err != nil {
		return err
	}
	if m.Role != "" && m.Role != agent.RoleUser {
		return agent.Errorf(agent.CodeInvalid, "role %q cannot be written: people write messages of the role user only", m.Role)
	}
	p, err := agent.ParseThreadID(id)
	if err != nil {
		return err
	}
	return s.sendAs(c, memory.SendRequest{SessionID: p.SessionID, ConversationID: p.ConversationID, MessageID: m.MessageID, Content: m.Content, WhenBusy: m.WhenBusy})
}

func (s *Server) chatTasks(c *call) error {
	id, err := c.chatID()
	if err != nil {
		return err
	}
	return s.tasksOf(c, id)
}

func (s *Server) subAgents(c *call) error {
	id, err := c.chatID()
	if err != nil {
		return err
	}
	if err := c.query().check(); err != nil {
		return err
	}
	list, err := c.client.SubAgents(c.r.Context(), id)
	if err != nil {
		return err
	}
	return c.answer(map[string]any{"subAgents": list})
}

// oneSubAgent is the sub-agent that the path names, of the chat that it names.
func (s *Server) oneSubAgent(c *call) (agent.SubAgent, error) {
	id, err := c.chatID()
	if err != nil {
		return agent.SubAgent{}, err
	}
	return c.client.SubAgent(c.r.Context(), id, c.path("id"))
}

func (s *Server) subAgent(c *call) error {
	a, err := s.oneSubAgent(c)
	if err != nil {
		return err
	}
	return c.answer(a)
}

func (s *Server) subAgentMessages(c *call) error {
	a, err := s.oneSubAgent(c)
	if err != nil {
		return err
	}
	return s.messagesOf(c, a.ThreadID)
}

func (s *Server) subAgentCalls(c *call) error {
	a, err := s.oneSubAgent(c)
	if err != nil {
		return err
	}
	return s.toolCallsOf(c, a.ThreadID)
}
