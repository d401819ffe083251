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

// KeepImage keeps an image in the journal, and in a file of its own by and by.
func (s *Store) KeepImage(ctx context.Context, data []byte) (string, error) {
	name, err := s.Store.KeepImage(ctx, data)
	if err == nil {
		s.files.imagesChanged()
	}
	return name, err
}

// DeleteTree removes a tree from the journal, and its files with the images that
// nothing else shows.
func (s *Store) DeleteTree(ctx context.Context, r memory.DeleteRequest) (memory.DeleteResult, error) {
	res, err := s.Store.DeleteTree(ctx, r)
	s.files.imagesChanged()
	return res, err
}

// EditThreads edits threads in the journal, which may remove trees and images.
func (s *Store) EditThreads(ctx context.Context, r memory.EditRequest) error {
	err := s.Store.EditThreads(ctx, r)
	s.files.imagesChanged()
	return err
}

// Close writes the files that lag behind and releases the folder.
func (s *Store) Close() error {
	s.files.stop()
	err := s.files.flush()
	err = errors.Join(err, s.Store.Close())
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
