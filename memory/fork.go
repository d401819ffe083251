package memory

// ForkRequest asks for a copy of a main thread, with its sub-agents, up to a
// message. RequestID makes it idempotent.
type ForkRequest struct {
	UserID    string
	Profile   string
	ThreadID  string
	RequestID string
	// At is the last message to copy, by its id or by that of its sender. Empty is
	// the last one that is saved.
	At string
	// ConversationID names the new conversation, which is in the same session;
	// empty makes a name.
	ConversationID string
}

// ForkResult is a fork; it is the same on every repetition.
type ForkResult struct {
	// ThreadID is the new main thread, FromThread the one that was copied.
	ThreadID   string `json:"threadId"`
	FromThread string `json:"fromThreadId"`
	// Messages were copied, from the first on.
	Messages int64 `json:"messages"`
	// SubAgents are the copied threads below the new one, parents first.
	SubAgents []ForkedThread `json:"subAgents"`
	// Cut are the copied threads whose last turn was not at its end at that
	// message: it ends in the copy as cancelled, with what was saved by then.
	Cut      []string `json:"cut"`
	Repeated bool     `json:"repeated,omitempty"`
}

// ForkedThread is a copy and what it was made of.
type ForkedThread struct {
	ThreadID   string `json:"threadId"`
	FromThread string `json:"fromThreadId"`
}
