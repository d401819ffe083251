package memory

import (
	"context"
	"regexp"

	"github.com/spool-agents/spool/agent"
)

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
