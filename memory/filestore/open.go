// Package filestore is the store that keeps each thread in a JSON file of its
// own, flat in one folder, for people and their tools to read:
//
//	DIR/session_SHORT.json           a conversation's own thread
//	DIR/subagent_session_SHORT.json  a sub-agent's thread
//	DIR/images/NAME                  an image that messages show
//	DIR/.spool/                      the journal, and the lock of its one process
//
// What is written is durable in the journal, a small SQLite database, before an
// operation returns. The files follow within a moment, each replaced as a whole,
// and are caught up when the store is opened. So a file is the old or the new one
// after a kill at any time, and nothing that was acknowledged is missing.
//
// The journal counts: what is changed in a file is not read back. Files that the
// journal does not know are imported, as closed history, when the store is opened;
// without a journal those are all. A file that cannot be understood is set aside and
// reported.
//
// One process may have the store open. Each change of a thread rewrites its whole
// file, some time later and several changes at once, so long threads cost more
// with every step; opening reads everything. For many or very long conversations,
// or several processes, use SQLite or PostgreSQL. A message takes about 3 KB, as a
// file holds rows besides. docs/figures.md says how long writing a file takes; no
// operation waits for that, and a file that takes long lags behind longer.
package filestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/internal/atomicfile"
	"github.com/spool-agents/spool/memory/sessionfile"
	"github.com/spool-agents/spool/memory/sqlite"
)

// inside is the folder of the journal, below the store's.
const inside = ".spool"

// lockWait lets a process that is about to end give up its lock.
const lockWait = time.Second

// Options of a store; the zero value is what programs use.
type Options struct {
	// Prefix begins the names of main sessions' files; empty = "session".
	Prefix string
	// Owner gets conversations that are imported from files of programs that
	// know no users.
	UserID, Profile string
	// Report is told what a person should know: damaged files, files that were
	// imported or could not be, and writes that fail. nil = nobody.
	Report func(error)
	// Clock is the store's clock, for tests; nil = the system's.
	Clock func() time.Time
	// Delay is how long a file may lag behind; 0 = 100 ms. Files that take long
	// to write lag longer, by twice that time.
	Delay time.Duration
}

// Store is the implementation of memory.ConversationMemoryStore on files.
type Store struct {
	*sqlite.Store
	dir   string
	files *files
	free  func()
}

var _ memory.ConversationMemoryStore = (*Store)(nil)

// Open opens the store in a folder, making it if need be. A second process, or a
// second Open in this one, is refused while the store is open.
func Open(ctx context.Context, dir string, o Options) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, agent.Wrap(err, agent.CodeInvalid, "file store: path %q is not possible", dir)
	}
	folder := sessionfile.Folder{Dir: dir, Prefix: o.Prefix, Now: o.Clock}
	if o.Prefix != "" {
		if err := sessionfile.CheckPrefix(o.Prefix); err != nil {
			return nil, err
		}
	}
	free, err := lock(ctx, dir)
	if err != nil {
		return nil, err
	}
	f := newFiles(folder, o)
	journal, err := sqlite.Open(ctx, filepath.Join(dir, inside, "journal.db"), sqlite.Options{
		Clock: o.Clock, Removing: f.remove, Committed: f.changed,
	})
	if err != nil {
		free()
		if code := agent.CodeOf(err); code == agent.CodeInternal || code == agent.CodeInvalid {
			err = agent.Wrap(err, code, "file store %s: its journal cannot be used; move %s away, and it is made anew from the session files", dir, filepath.Join(dir, inside, "journal.db"))
		}
		return nil, err
	}
	s := &Store{Store: journal, dir: dir, files: f, free: free}
	f.journal = journal
	if err := f.catchUp(ctx); err != nil {
		_ = journal.Close()
		free()
		return nil, err
	}
	go f.run()
	return s, nil
}

// Dir is the store's folder.
func (s *Store) Dir() string { return s.dir }

// Flush writes the files that lag behind. It returns what kept it from writing.
func (s *Store) Flush() error { return s.files.flush() }

// Close writes the files that lag behind and releases the folder.
func (s *Store) Close() error {
	if !s.files.stop() {
		return nil
	}
	err := errors.Join(s.files.flush(), s.Store.Close())
	s.free()
	return err
}

// lock makes this process the one that has the folder.
func lock(ctx context.Context, dir string) (free func(), err error) {
	path := filepath.Join(dir, inside, "lock")
	if err := atomicfile.MakeDir(filepath.Dir(path)); err != nil {
		return nil, atomicfile.Explain(err, "file store "+dir)
	}
	free, err = atomicfile.Lock(ctx, path, lockWait)
	owner := filepath.Join(dir, inside, "owner")
	if agent.CodeOf(err) == agent.CodeUnavailable {
		who, readErr := os.ReadFile(owner)
		if readErr != nil {
			who = []byte("unknown")
		}
		return nil, agent.Errorf(agent.CodeConflict, "file store %s is in use by another process (%s): a file store serves one process, which runs worker and sender; end that one, or use sqlite:PATH, which serves several",
			dir, strings.TrimSpace(string(who)))
	}
	if err != nil {
		return nil, atomicfile.Explain(err, "file store "+dir)
	}
	// Only for the message above.
	_ = os.WriteFile(owner, fmt.Appendf(nil, "pid %d\n", os.Getpid()), 0o600)
	return free, nil
}
