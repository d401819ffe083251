package memory

import (
	"context"
	"encoding/json"
	"regexp"
	"time"

	"github.com/spool-agents/spool/agent"
)

// Archiver moves whole threads out of a store and into one, removes them, and
// mends what a damaged store can be mended of.
type Archiver interface {
	// ExportThreads returns all that is stored of a thread, and with Below of
	// everything below it, parents first, as it was at one moment.
	ExportThreads(ctx context.Context, r ExportRequest) ([]ThreadRecord, error)
	// ImportThreads adds the threads of one tree as they were: ids, seq, times,
	// events, tasks and calls are kept. They are closed history: what was open ends
	// as cancelled or aborted, what waited is dropped, and neither permissions nor
	// policies come along. Threads that are there already with these messages are
	// left alone; one with other messages is CodeConflict. The parent of each
	// sub-agent must be among the threads or in the store.
	ImportThreads(ctx context.Context, r ImportRequest) (ImportResult, error)
	// DeleteTree removes a main thread with everything below it, and with its
	// last thread the session. CodeConflict if anything there is at work or
	// waits to be, or was active since r.IdleSince.
	DeleteTree(ctx context.Context, r DeleteRequest) (DeleteResult, error)
	// Repair counts a thread's numbers anew and puts missing results behind their
	// calls. It returns what it did. A thread that is right is left as it is, and of
	// one with rows that are lost or damaged no number is counted anew.
	Repair(ctx context.Context, threadID string) ([]string, error)
	// Audit reports what Repair would mend, and what it cannot: rows that cannot
	// be read, that are lost, or that contradict each other. It changes nothing.
	Audit(ctx context.Context, threadID string) ([]Finding, error)
}

// ThreadRecord is all that a store holds of a thread.
type ThreadRecord struct {
	Thread   agent.Thread
	Messages []agent.Message
	// Rows is what the store holds beside messages, as JSON of its own. Without
	// it an import makes turns, calls and log from the messages, as they are
	// known from programs that keep nothing else.
	Rows json.RawMessage
}

// ExportRequest names a thread. An empty UserID exports anybody's.
type ExportRequest struct {
	UserID   string
	ThreadID string
	Below    bool
}

// ImportRequest holds the threads of one tree, parents first. UserID, if set, is
// whose they must be; records without Rows become that user's, in Profile.
type ImportRequest struct {
	UserID  string
	Profile string
	Threads []ThreadRecord
}

// ImportResult names the threads that were added and those that were there.
type ImportResult struct {
	Added   []string `json:"added"`
	Present []string `json:"present"`
	// Dropped is what an import does not take over.
	Dropped []Dropped `json:"dropped,omitempty"`
}

// Dropped is a part of a thread that an import left out or ended.
type Dropped struct {
	ThreadID string `json:"threadId"`
	What     string `json:"what"`
}

// DeleteRequest names a main thread.
type DeleteRequest struct {
	UserID   string
	ThreadID string
	// IdleSince, if set, holds the deletion back if anything in the tree was
	// active, or was imported, at that time or later.
	IdleSince time.Time
}

// DeleteResult names the threads that were removed.
type DeleteResult struct {
	Threads []string `json:"threads"`
	// Session means that it was the last of its session, which is gone too.
	Session bool `json:"session"`
}

// Editor changes what threads remember, past turns: for programs that add to a
// conversation, correct it, or bring one with them.
type Editor interface {
	// EditThreads makes all edits of a request or none. A thread that is at work,
	// or about to be, is CodeConflict. Nothing that was said is lost: messages
	// that are replaced stay as superseded ones, of which neither a model nor
	// MemoryPort is told, and each edit is an event. Messages are added as closed
	// turns, each with its calls and results. Repeating a request changes nothing.
	EditThreads(ctx context.Context, r EditRequest) error
}

// EditRequest holds edits of a user's threads.
type EditRequest struct {
	UserID string
	// Profile is that of threads which are made, and bounds which are found.
	Profile string
	// Seen are the threads that the edits rely on, with their last event when
	// they were read, -1 if they did not exist. What changed since is CodeStale.
	Seen  map[string]int64
	Edits []ThreadEdit
}

// ThreadEdit is what becomes of one thread. A main thread that does not exist is
// made by its first message.
type ThreadEdit struct {
	ThreadID string
	// Delete removes a main thread with everything below it, as DeleteTree does.
	// A sub-agent's thread, to which its parent refers, loses its messages and is
	// taken from lists of sub-agents; a resume brings it back.
	Delete bool
	// Replace makes Messages all that the thread remembers; otherwise they are put
	// behind what is there. One whose id is there already is left alone if it says
	// the same, and CodeConflict otherwise.
	Replace  bool
	Messages []agent.Message
	// Metadata, if set, gives the topic and the size of the context window, and
	// what was used in all: tokens, requests and price, which never become less
	// and count as used by the last turn. The rest is counted.
	Metadata *agent.Metadata
}

// edited is how the id of a message goes on that has its place under an id which
// an older message of the thread has already.
var edited = regexp.MustCompile(`~edit[0-9]+$`)

// OriginalID is the id that whoever wrote a message gave it.
func OriginalID(messageID string) string { return edited.ReplaceAllString(messageID, "") }

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

// Imager keeps the images that messages refer to as image:NAME, by their content.
// An image stays while a thread refers to it. One that no message uses within a day
// is removed. Safe for concurrent use.
type Imager interface {
	// KeepImage keeps an image and returns its name, the same for the same bytes.
	// What agent.ImageName refuses is CodeInvalid. Keep an image before the message
	// is sent that shows it.
	KeepImage(ctx context.Context, data []byte) (name string, err error)
	// Image returns the bytes of a kept image, or CodeNotFound. Who knows its name may
	// have it: the name is a digest of the content.
	Image(ctx context.Context, name string) ([]byte, error)
}
