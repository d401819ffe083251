package memory

import (
	"context"
	"encoding/json"
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
