package follow

import "github.com/spool-agents/spool/agent"

// Update is one thing that a follower gets. Exactly one of Event and Text is set.
type Update struct {
	ThreadID string `json:"threadId"`
	// Cursor is where to go on in this thread after this update.
	Cursor string       `json:"cursor"`
	Event  *agent.Event `json:"event,omitempty"`
	// Messages are those a memory_appended event speaks of. Each replaces what
	// was streamed under its id. With the message_started of a retry it is the
	// answer that the retry supersedes, as it is marked now.
	Messages []agent.Message `json:"messages,omitempty"`
	Text     *TextUpdate     `json:"text,omitempty"`
}

// TextUpdate is a piece of streamed text of (message id, attempt). A new attempt
// replaces what earlier ones showed for the message.
type TextUpdate struct {
	MessageID string `json:"messageId"`
	TurnID    string `json:"turnId"`
	Attempt   int    `json:"attempt"`
	// Supersedes is the attempt whose text, delivered before, is void: it failed
	// or was lost, and this one begins anew. It stands in the first piece.
	Supersedes int `json:"supersedes,omitempty"`
	// Offset is the byte offset of Text in the attempt's text, ReasoningOffset
	// that of Reasoning in its reasoning.
	Offset          int    `json:"offset"`
	Text            string `json:"text,omitempty"`
	ReasoningOffset int    `json:"reasoningOffset,omitempty"`
	Reasoning       string `json:"reasoning,omitempty"`
}

// Options say what to follow and how long.
type Options struct {
	// UntilIdle ends when no turn is open and nothing waits; otherwise Follow
	// goes on until its context ends.
	UntilIdle bool
	// UntilTurn ends once this turn's done or error event was delivered.
	UntilTurn string
	// Once ends when what had been committed at the call was delivered.
	Once bool
	// Descendants includes all sub-agents, each from From[its thread id].
	Descendants bool
	From        map[string]string
}
