package sessionfile

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"regexp"

	"github.com/spool-agents/spool/agent"
)

const (
	// DefaultPrefix begins the names of main sessions' files.
	DefaultPrefix = "session"
	// SubAgentMark and a prefix begin the names of sub-agents' files.
	SubAgentMark = "subagent_"
	// MaxIDLength bounds ids: those of sub-agents contain their type.
	MaxIDLength = 128

	tail = 8 // characters of an id that a file's name shows
)

var (
	idPattern     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	prefixPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	hashed        = regexp.MustCompile(`-[0-9a-f]{8}$`)
)

// CheckID refuses ids that could lead to another file: with a slash, NUL, anything
// but plain letters and digits, or too long. One that begins with a letter or
// digit and has no slash is a single element of a path, neither "." nor "..":
// dots behind that, also two of them, lead nowhere.
func CheckID(id string) error {
	switch {
	case len(id) > MaxIDLength:
		return agent.Errorf(agent.CodeInvalid, "session id %.40q… has %d characters: at most %d are possible", id, len(id), MaxIDLength)
	case !idPattern.MatchString(id):
		return agent.Errorf(agent.CodeInvalid, "session id %q is not valid: use a letter or digit, then A-Z a-z 0-9 . _ -", id)
	}
	return nil
}

// CheckPrefix refuses prefixes that could lead to another folder or that hide
// whether a file is a sub-agent's.
func CheckPrefix(prefix string) error {
	if prefixPattern.MatchString(prefix) {
		return nil
	}
	return agent.Errorf(agent.CodeInvalid, "session prefix %q is not valid: use a letter or digit, then up to 63 of A-Z a-z 0-9 . _ -", prefix)
}

// ProfileDir is the folder of a profile's files. It appears with its first file.
func ProfileDir(home, profile string) (string, error) {
	if err := agent.CheckName("profile", profile); err != nil {
		return "", err
	}
	return filepath.Join(home, "profiles", profile), nil
}

// ShortID is the part of a file's name that stands for an id: its last 8
// characters, for people, and 8 hex digits of its SHA-256, because many ids end
// alike.
func ShortID(id string) (string, error) {
	if err := CheckID(id); err != nil {
		return "", err
	}
	return bare(id) + "-" + sum(id), nil
}

// conversationShortID is ShortID of a conversation: unless it is the default
// one, its thread id is hashed, so that the conversations of a session differ.
func conversationShortID(sessionID, conversationID string) (string, error) {
	short, err := ShortID(sessionID)
	if err != nil || conversationID == "" || conversationID == agent.DefaultConversation {
		return short, err
	}
	if err := agent.CheckName("conversation", conversationID); err != nil {
		return "", err
	}
	return bare(sessionID) + "-" + sum(agent.MainThreadID(sessionID, conversationID)), nil
}

func bare(id string) string { return id[max(0, len(id)-tail):] }

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])[:8]
}

// GetSessionFilePath is the path of a session's file in dir: PREFIX_SHORT.json.
// The prefix is DefaultPrefix if it is empty; for a sub-agent it begins with
// SubAgentMark.
func GetSessionFilePath(id, dir, prefix string) (string, error) {
	return GetConversationFilePath(id, agent.DefaultConversation, dir, prefix)
}

// GetConversationFilePath is GetSessionFilePath for a conversation of a session.
func GetConversationFilePath(sessionID, conversationID, dir, prefix string) (string, error) {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	if err := CheckPrefix(prefix); err != nil {
		return "", err
	}
	short, err := conversationShortID(sessionID, conversationID)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, prefix+"_"+short+".json"), nil
}
