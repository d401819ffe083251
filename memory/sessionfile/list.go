package sessionfile

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/port"
)

// Info is an entry of a list of sessions: a Session without its messages.
type Info struct {
	Session
	MessageCount int
	Path         string
	// Lost counts messages that a torn last line cost.
	Lost int
}

// BrokenFile is a session's file that was left out of a list.
type BrokenFile struct {
	Path string
	Err  error
}

// ListOptions select sessions. The zero value selects the main ones.
type ListOptions struct {
	// All includes sub-agents.
	All bool
	// Workdir, if set, selects the sessions of that folder.
	Workdir string
}

// ListSessions returns sessions, newest activity first, and the files that
// could not be read, which keep no others from being listed.
func (f Folder) ListSessions(o ListOptions) ([]Info, []BrokenFile, error) {
	files, broken, err := f.scan("")
	if err != nil {
		return nil, nil, err
	}
	out := []Info{}
	for _, i := range files {
		if (o.All || i.Kind == agent.KindMain) && (o.Workdir == "" || filepath.Clean(i.Workdir) == filepath.Clean(o.Workdir)) {
			i.Messages = nil
			out = append(out, i)
		}
	}
	return out, broken, nil
}

// LatestSession returns the main session with the newest activity, of a folder
// if workdir is set. It is never a sub-agent.
func (f Folder) LatestSession(workdir string) (Session, bool, error) {
	list, _, err := f.ListSessions(ListOptions{Workdir: workdir})
	if err != nil || len(list) == 0 {
		return Session{}, false, err
	}
	s, _, err := readSession(list[0].Path)
	if errors.Is(err, fs.ErrNotExist) { // deleted meanwhile
		return f.LatestSession(workdir)
	}
	return s, err == nil, err
}

// scan reads the files of all sessions, newest activity first; those of one
// prefix only if it is set. Of two files of one thread the one with the newer
// form of name counts.
func (f Folder) scan(only string) (files []Info, broken []BrokenFile, err error) {
	main, sub, err := f.prefixes()
	if err != nil {
		return nil, nil, err
	}
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil, nil
		}
		return nil, nil, explain(err, f.Dir)
	}
	byThread := map[string]Info{}
	for _, e := range entries {
		prefix, short, ok := splitName(e.Name(), main, sub)
		if !ok || only != "" && prefix != only {
			continue
		}
		path := filepath.Join(f.Dir, e.Name())
		info, err := readInfo(path)
		if errors.Is(err, fs.ErrNotExist) { // deleted meanwhile
			continue
		}
		if err == nil {
			err = matches(&info.Session, short, prefix == sub)
		}
		switch {
		case errors.Is(err, errOtherPrefix):
		case err != nil:
			broken = append(broken, BrokenFile{Path: path, Err: err})
		default:
			if other, ok := byThread[info.key()]; !ok || better(info, other) {
				byThread[info.key()] = info
			}
		}
	}
	for _, i := range byThread {
		files = append(files, i)
	}
	slices.SortFunc(files, func(a, b Info) int {
		return cmp.Or(b.LastActiveAt.Compare(a.LastActiveAt), strings.Compare(a.key(), b.key()))
	})
	return files, broken, nil
}

// splitName takes the name of a session's file apart.
func splitName(name, main, sub string) (prefix, short string, ok bool) {
	base, found := strings.CutSuffix(name, ".json")
	if !found {
		if base, found = strings.CutSuffix(name, ".jsonl"); !found {
			return "", "", false
		}
	}
	for _, prefix := range []string{main, sub} {
		if short, ok := strings.CutPrefix(base, prefix+"_"); ok && short != "" {
			return prefix, short, true
		}
	}
	return "", "", false
}

// errOtherPrefix marks a file whose longer prefix begins with the one looked for.
var errOtherPrefix = errors.New("the file has another prefix")

// matches compares a stored session with the name of its file.
func matches(s *Session, short string, sub bool) error {
	want, err := s.shortID()
	if err != nil {
		return err
	}
	old := bare(s.ID)
	switch {
	case short != want && short != old && (strings.HasSuffix(short, "_"+want) || strings.HasSuffix(short, "_"+old)):
		return errOtherPrefix
	case short != want && short != old:
		return agent.Errorf(agent.CodeInvalid, "the file holds session %s, whose file has another name: rename it to end in _%s.json", s.ID, want)
	case sub != (s.Kind == agent.KindSubAgent):
		return agent.Errorf(agent.CodeInvalid, "the file's name and content differ on whether %s is a sub-agent: rename it", s.ID)
	}
	return nil
}

// better reports whether a counts although b is about the same thread.
func better(a, b Info) bool {
	if x, y := hashed.MatchString(nameOf(a)), hashed.MatchString(nameOf(b)); x != y {
		return x
	}
	return a.LastActiveAt.After(b.LastActiveAt)
}

func nameOf(i Info) string {
	return strings.TrimSuffix(filepath.Base(i.Path), filepath.Ext(i.Path))
}

func readInfo(path string) (Info, error) {
	s, lost, err := readSession(path)
	if err != nil {
		return Info{}, err
	}
	if strings.HasPrefix(filepath.Base(path), SubAgentMark) && s.Kind == agent.KindMain && s.AgentType == "" && s.ConversationID == agent.DefaultConversation {
		// Older files do not say what they are; their names do.
		s.Kind, s.ConversationID, s.ThreadID = agent.KindSubAgent, "", ""
	}
	if s.LastActiveAt.IsZero() {
		if stat, err := os.Stat(path); err == nil {
			s.LastActiveAt = stat.ModTime().UTC().Truncate(time.Millisecond)
		}
	}
	return Info{Session: s, MessageCount: len(s.Messages), Path: path, Lost: lost}, nil
}

// damaged reports whether err says that a file cannot be understood.
func damaged(err error) bool {
	var d *port.DamagedError
	return errors.As(err, &d)
}
