package sessionfile

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spool-agents/spool/agent"
)

// LoadSession returns the session with an id, and whether there is one: a main
// session, else a sub-agent's. The id is that of a session (its conversation
// "default"), a thread, an agent, or the short id of a file. What is stored must
// have that id.
func (f Folder) LoadSession(id string) (Session, bool, error) {
	main, sub, err := f.prefixes()
	if err != nil {
		return Session{}, false, err
	}
	for _, prefix := range []string{main, sub} {
		s, found, err := f.LoadSessionAs(prefix, id)
		if err != nil || found {
			return s, found, err
		}
	}
	return Session{}, false, nil
}

// LoadSessionAs is LoadSession among the files of one prefix.
func (f Folder) LoadSessionAs(prefix, id string) (Session, bool, error) {
	if err := CheckPrefix(prefix); err != nil {
		return Session{}, false, err
	}
	f.Prefix = strings.TrimPrefix(prefix, SubAgentMark)
	sub := f.Prefix != prefix
	want, err := wanted(id, sub)
	if err != nil {
		return Session{}, false, err
	}
	if want == nil {
		return Session{}, false, nil
	}
	short, err := want.shortID()
	if err != nil {
		return Session{}, false, err
	}
	names := []string{short + ".json", short + ".jsonl"}
	if old := bare(want.ID); sub || want.ConversationID == agent.DefaultConversation {
		names = append(names, old+".json", old+".jsonl")
	}
	var broken error
	for _, name := range names {
		info, err := readInfo(filepath.Join(f.Dir, prefix+"_"+name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case damaged(err):
			broken = errors.Join(broken, err)
		case err != nil:
			return Session{}, false, err
		case sameThread(&info.Session, want):
			return info.Session, true, nil
		}
	}
	if s, found, err := f.byShortID(prefix, id); err != nil || found {
		return s, found, err
	}
	return Session{}, false, broken
}

// wanted makes an id what a file must hold; nil if no file of that kind can.
func wanted(id string, sub bool) (*Session, error) {
	s := &Session{ID: id, Kind: agent.KindMain}
	if sub {
		s.Kind = agent.KindSubAgent
	}
	if strings.ContainsAny(id, "/:") {
		p, err := agent.ParseThreadID(id)
		if err != nil {
			return nil, err
		}
		if (p.Kind == agent.KindSubAgent) != sub {
			return nil, nil
		}
		s.ID, s.ThreadID = p.SessionID, id
		if sub {
			s.ID = p.AgentID
		}
	}
	return s, s.complete()
}

// byShortID finds the session whose file's name shows a short id: the last 8
// characters alone, or with the hash.
func (f Folder) byShortID(prefix, id string) (Session, bool, error) {
	if len(id) != tail && !(len(id) <= tail+9 && hashed.MatchString(id)) {
		return Session{}, false, nil
	}
	files, _, err := f.scan(prefix)
	if err != nil {
		return Session{}, false, err
	}
	var found []Session
	var ids []string
	for _, i := range files {
		if short, err := i.shortID(); err == nil && (short == id || len(id) == tail && bare(i.ID) == id) {
			found, ids = append(found, i.Session), append(ids, i.key())
		}
	}
	switch len(found) {
	case 0:
		return Session{}, false, nil
	case 1:
		return found[0], true, nil
	}
	return Session{}, false, agent.Errorf(agent.CodeConflict, "several sessions have the short id %s: name one of %s", id, strings.Join(ids, ", "))
}
