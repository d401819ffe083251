package httpapi

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spool-agents/spool/agent"
)

// Users knows who may use a server: by tokens that are given to it, and by those
// of a file, which holds their SHA-256 only. It is safe for concurrent use.
type Users struct {
	file    string
	mayCome bool   // the file need not be there yet
	key     []byte // signs sessions
	ended   string // folder that says when sessions were ended; "" = nowhere

	mu    sync.Mutex
	fixed map[string]credential // by the token's digest
	read  map[string]credential // of the file
	ends  map[string]time.Time  // of sessions, by their token
	stamp string                // of the file, as it was read
}

// credential is what a token stands for.
type credential struct {
	user string
	// id ties sessions to the token that began them.
	id string
}

// LocalSession is the id of tokens made for one run of a server: sessions that
// began with one outlive it.
const LocalSession = "local"

// NewUsers reads the file of tokens, if one is named, and the key that signs
// sessions, which is made if it is missing. Without a key, sessions end with the
// process.
func NewUsers(file, keyFile string) (*Users, error) {
	u := &Users{file: file, fixed: map[string]credential{}, ends: map[string]time.Time{}}
	if keyFile != "" {
		u.ended = filepath.Join(filepath.Dir(keyFile), "web-logouts")
	}
	var err error
	if u.key, err = sessionKey(keyFile); err != nil {
		return nil, err
	}
	return u, u.refresh()
}

// Await reads a file of tokens as soon as it is there. It is called before the
// server serves.
func (u *Users) Await(file string) { u.file, u.mayCome = file, true }

// Add lets a token stand for a user. session is the id of sessions that begin
// with it; "" = one that the token alone has.
func (u *Users) Add(userID, token, session string) error {
	if userID == "" || len(token) < 16 {
		return agent.Errorf(agent.CodeInvalid, "a token of the web server needs a user and at least 16 characters")
	}
	d := digestOf(token)
	if session == "" {
		session = d[:16]
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fixed[d] = credential{userID, session}
	return nil
}

// Any reports whether anybody may use the server.
func (u *Users) Any() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.fixed)+len(u.read) > 0
}

// NewToken makes a token that nobody can guess.
func NewToken() string { return randomText(32) }

func randomText(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// digestOf is how a token is kept. Tokens are random, so that no salt is needed.
func digestOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func (u *Users) byToken(token string) (credential, bool) {
	d := digestOf(token)
	u.mu.Lock()
	defer u.mu.Unlock()
	if c, ok := u.fixed[d]; ok {
		return c, true
	}
	c, ok := u.read[d]
	return c, ok
}

// holds reports whether some token still stands for a user under this id.
func (u *Users) holds(c credential) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, set := range []map[string]credential{u.fixed, u.read} {
		for _, known := range set {
			if known == c {
				return true
			}
		}
	}
	return false
}

// refresh reads the file again if it has changed. A file that cannot be read is an error,
// once, and changes nothing; with one that is removed all its tokens end.
func (u *Users) refresh() error {
	if u.file == "" {
		return nil
	}
	info, err := os.Stat(u.file)
	u.mu.Lock()
	defer u.mu.Unlock()
	if errors.Is(err, fs.ErrNotExist) && (u.mayCome || u.stamp != "") {
		u.read, u.stamp = nil, "none"
		return nil
	}
	if err != nil {
		return agent.Wrap(err, agent.CodeInvalid, "cannot read the web server's tokens")
	}
	stamp := fmt.Sprint(info.ModTime().UnixNano(), info.Size())
	if stamp == u.stamp {
		return nil
	}
	u.stamp = stamp
	read, err := readTokens(u.file)
	if err == nil {
		u.read = read
	}
	return err
}

// readTokens reads lines of USER and SHA-256 in hexadecimal; what follows on a
// line, and lines that begin with #, are for people.
func readTokens(path string) (map[string]credential, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, agent.Wrap(err, agent.CodeInvalid, "cannot read the web server's tokens")
	}
	defer f.Close()
	out := map[string]credential{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) < 2 || len(words[1]) != sha256.Size*2 {
			return nil, agent.Errorf(agent.CodeInvalid, "%s:%d is not valid: want a user and the SHA-256 of a token in hexadecimal, as web-token writes them", path, n)
		}
		d := strings.ToLower(words[1])
		if _, err := hex.DecodeString(d); err != nil {
			return nil, agent.Errorf(agent.CodeInvalid, "%s:%d: %q is not hexadecimal", path, n, words[1])
		}
		out[d] = credential{words[0], d[:16]}
	}
	if err := lines.Err(); err != nil {
		return nil, agent.Wrap(err, agent.CodeInvalid, "cannot read %s", path)
	}
	return out, nil
}

// AppendToken makes a token for a user and adds its digest to a file, which is made
// if it is missing. Only the caller ever has the token.
func AppendToken(path, userID string) (string, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", agent.Wrap(err, agent.CodeUnavailable, "cannot make the folder of %s", path)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return "", agent.Wrap(err, agent.CodeUnavailable, "cannot write %s", path)
	}
	token := NewToken()
	_, err = fmt.Fprintf(f, "%s %s %s\n", userID, digestOf(token), time.Now().UTC().Format(time.RFC3339))
	err = errors.Join(err, f.Close())
	return token, agent.Wrap(err, agent.CodeUnavailable, "cannot write %s", path)
}

// sessionKey reads the key of sessions, or makes it.
func sessionKey(path string) ([]byte, error) {
	if path == "" {
		return []byte(randomText(32)), nil
	}
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeKey(path); err == nil {
			key, err = os.ReadFile(path)
		}
	}
	if err == nil && len(key) < 32 {
		err = errors.New("it is too short: remove it, and a new one is made")
	}
	return key, agent.Wrap(err, agent.CodeUnavailable, "cannot read the key of web sessions %s", path)
}

// makeKey makes the file of a key as a whole. Several processes may: the first to link
// it has made the key, and the others read it.
func makeKey(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".web-key-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.WriteString(randomText(32))
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if err = os.Link(tmp.Name(), path); errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
