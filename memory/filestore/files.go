package filestore

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/agent/steps"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/archive"
	"github.com/spool-agents/spool/memory/port"
	"github.com/spool-agents/spool/memory/sessionfile"
	"github.com/spool-agents/spool/memory/sqlite"
)

const (
	defaultDelay = 100 * time.Millisecond
	// maxDelay bounds how long a file lags behind while its writes fail.
	maxDelay = 5 * time.Second
)

// files keeps the files of a store behind its journal.
type files struct {
	folder  sessionfile.Folder
	o       Options
	journal *sqlite.Store

	mu    sync.Mutex
	dirty map[string]bool // threads whose files lag behind
	wake  chan struct{}
	ended chan struct{}
	done  chan struct{}

	writing sync.Mutex // one flush at a time
	file    sync.Mutex // one file is written or removed
	// removals counts when deletions began and when they were over, so it is odd
	// while one is at work; under file.
	removals int
	// images are those of the journal whose files were written or found; under writing.
	images map[string]bool
	said   map[string]string
}

func newFiles(folder sessionfile.Folder, o Options) *files {
	f := &files{folder: folder, o: o, dirty: map[string]bool{}, wake: make(chan struct{}, 1), ended: make(chan struct{}), done: make(chan struct{}), said: map[string]string{}}
	f.folder.OnDamage = func(d *port.DamagedError) { f.report(d) }
	if f.o.Delay <= 0 {
		f.o.Delay = defaultDelay
	}
	return f
}

func (f *files) report(err error) {
	if f.o.Report != nil && err != nil {
		f.o.Report(err)
	}
}

// changed notes threads whose files have to be written.
func (f *files) changed(threads []string) {
	f.mu.Lock()
	for _, id := range threads {
		f.dirty[id] = true
	}
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// remove removes the files of a tree that is about to be deleted, its root first
// in threads. No file is written until the deletion is over: one that came back would
// bring the tree back. If the deletion does not happen they are written again.
func (f *files) remove(threads []string) (over func()) {
	f.file.Lock()
	defer f.file.Unlock()
	f.removals++
	// Also files with names of the older form.
	_, err := f.folder.DeleteSession(threads[0])
	for _, id := range threads {
		err = errors.Join(err, f.removeFile(id))
	}
	if err != nil {
		f.report(agent.Wrap(err, agent.CodeUnavailable, "files of thread %s cannot be removed", threads[0]))
	}
	return func() {
		f.file.Lock()
		f.removals++
		f.file.Unlock()
		f.changed(threads)
	}
}

func (f *files) removeFile(threadID string) error {
	path, err := f.path(threadID)
	if err == nil {
		err = os.Remove(path)
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func (f *files) path(threadID string) (string, error) {
	p, err := agent.ParseThreadID(threadID)
	if err != nil {
		return "", err
	}
	s := sessionfile.Session{ID: p.SessionID, Kind: p.Kind, ThreadID: threadID}
	if p.Kind == agent.KindSubAgent {
		s.ID = p.AgentID
	}
	return f.folder.Path(s)
}

// run writes files until stop.
func (f *files) run() {
	defer close(f.done)
	delay := f.o.Delay
	for {
		select {
		case <-f.wake:
		case <-f.ended:
			return
		}
		select {
		case <-time.After(delay):
		case <-f.ended:
			return
		}
		began := time.Now()
		if f.flush() != nil {
			delay = min(2*delay, maxDelay)
			f.changed(nil) // what failed is tried again
			continue
		}
		delay = max(f.o.Delay, min(2*time.Since(began), maxDelay))
	}
}

// stop ends run, and reports whether it was still to be ended.
func (f *files) stop() bool {
	f.mu.Lock()
	select {
	case <-f.ended:
		f.mu.Unlock()
		return false
	default:
	}
	close(f.ended)
	f.mu.Unlock()
	<-f.done
	return true
}

// flush writes what lags behind. What fails stays to be written.
func (f *files) flush() error {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.mu.Lock()
	todo := f.dirty
	f.dirty = map[string]bool{}
	f.mu.Unlock()
	err := steps.Run(f.writeImages) // first: a thread refers to them
	f.sayOnce("images", err)
	errs := []error{err}
	for id := range todo {
		err := f.write(id)
		f.sayOnce(id, err)
		if err != nil {
			errs = append(errs, err)
			f.mu.Lock()
			f.dirty[id] = true
			f.mu.Unlock()
		}
	}
	return errors.Join(errs...)
}

// sayOnce reports why something is not written, not with every try.
func (f *files) sayOnce(what string, err error) {
	if err == nil {
		delete(f.said, what)
	} else if f.said[what] != err.Error() {
		f.said[what] = err.Error()
		f.report(err)
	}
}

// write makes a thread's file that of the journal.
func (f *files) write(threadID string) error {
	for {
		f.file.Lock()
		began := f.removals
		f.file.Unlock()
		s, err := f.session(threadID)
		gone := agent.CodeOf(err) == agent.CodeNotFound
		if err != nil && !gone {
			return err
		}
		f.file.Lock()
		if f.removals != began || began%2 == 1 { // s may be of a thread that goes
			f.file.Unlock()
			time.Sleep(time.Millisecond)
			continue
		}
		defer f.file.Unlock()
		if gone {
			return f.removeFile(threadID)
		}
		_, err = f.folder.SaveThread(s)
		return err
	}
}

func (f *files) session(threadID string) (sessionfile.Session, error) {
	records, err := f.journal.ExportThreads(context.Background(), memory.ExportRequest{ThreadID: threadID})
	if err != nil {
		return sessionfile.Session{}, err
	}
	return archive.Session(records[0])
}

// catchUp imports files that the journal does not know and writes those that lag
// behind: after a kill, or because somebody damaged or removed them.
func (f *files) catchUp(ctx context.Context) error {
	in, err := archive.Import(ctx, unknownOnly{f.journal}, f.folder, archive.Owner{UserID: f.o.UserID, Profile: f.o.Profile}, "")
	if err != nil {
		return err
	}
	for _, r := range in.Refused {
		f.report(f.setAside(r))
	}
	for _, d := range in.Dropped {
		f.report(agent.Errorf(agent.CodeInvalid, "thread %s was made anew from its file, without %s", d.ThreadID, d.What))
	}
	threads, err := f.journal.Threads(ctx, memory.ThreadFilter{All: true})
	if err != nil {
		return err
	}
	if err := steps.Run(f.writeImages); err != nil {
		f.report(err)
		f.changed(nil) // it is tried again
	}
	for _, t := range threads {
		// One that cannot be written now is written later, or reported then.
		if err := f.write(t.ID); err != nil {
			f.changed([]string{t.ID})
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range in.Added {
		delete(f.dirty, id)
	}
	return nil
}

// setAside moves a file away that cannot be understood, and says where to.
func (f *files) setAside(r archive.Refused) error {
	var damaged *port.DamagedError
	if !errors.As(r, &damaged) || damaged.SetAside != "" {
		return r
	}
	now := time.Now
	if f.o.Clock != nil {
		now = f.o.Clock
	}
	return damaged.MoveAway(now(), nil)
}

// unknownOnly is a journal into which only trees are imported that it does not
// hold: of those that it does, the journal counts.
type unknownOnly struct{ *sqlite.Store }

// ImportThreads leaves out threads that are there.
func (u unknownOnly) ImportThreads(ctx context.Context, r memory.ImportRequest) (memory.ImportResult, error) {
	var res memory.ImportResult
	var missing []memory.ThreadRecord
	for _, record := range r.Threads {
		_, err := u.Thread(ctx, "", record.Thread.ID)
		switch agent.CodeOf(err) {
		case "":
			res.Present = append(res.Present, record.Thread.ID)
		case agent.CodeNotFound:
			missing = append(missing, record)
		default:
			return res, err
		}
	}
	if len(missing) == 0 {
		return res, nil
	}
	// Whoever a file belongs to may have it back.
	if len(missing[0].Rows) > 0 {
		r.UserID = ""
	}
	r.Threads = missing
	added, err := u.Store.ImportThreads(ctx, r)
	res.Added, res.Dropped = append(added.Added, added.Present...), added.Dropped
	return res, err
}

// writeImages makes the files of images those of the journal. A file that the
// journal did not know, such as one that a damaged session file refers to, stays.
func (f *files) writeImages() {
	ctx := context.Background()
	kept, have := map[string]bool{}, steps.Must(f.folder.ImageNames())
	for _, name := range steps.Must(f.journal.ImageNames(ctx)) {
		kept[name] = true
		if slices.Contains(have, name) {
			continue
		}
		if data, there := steps.Found(f.journal.Image(ctx, name)); there { // else removed meanwhile, which is noted
			steps.Must(f.folder.SaveImage(name, data))
		}
	}
	for name := range f.images {
		if !kept[name] {
			steps.Must(f.folder.RemoveImage(name))
		}
	}
	f.images = kept
}
