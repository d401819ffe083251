package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/encryption"
)

const storesAllowed = "sqlite:PATH, postgres://USER@HOST/DB, file:DIR or memory:"

// place is what a path is relative to.
type place struct {
	dir string // of relative paths
	// home is what a leading ~ means; "" if it cannot be known.
	home string
}

const homeUnknown = "an absolute path: HOME is not set here and this user has no home directory"

// resolve makes a path absolute; a leading ~ is the user's home directory. ok is
// false if that is needed and unknown.
func (p place) resolve(path string) (_ string, ok bool) {
	if path == "~" || strings.HasPrefix(path, "~/") {
		if p.home == "" {
			return "", false
		}
		path = filepath.Join(p.home, path[1:])
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.dir, path)
	}
	return filepath.Clean(path), true
}

// userHome is the home directory of who runs the process: HOME, or what the
// system's list of users says.
func userHome(env func(string) string) string {
	if h := env("HOME"); filepath.IsAbs(h) {
		return h
	}
	if h := env("USERPROFILE"); filepath.IsAbs(h) {
		return h
	}
	if u, err := user.Current(); err == nil && filepath.IsAbs(u.HomeDir) {
		return u.HomeDir
	}
	return ""
}

func asPath(v string, at place) (string, string) {
	if strings.ContainsRune(v, 0) {
		return "", "a path"
	}
	if p, ok := at.resolve(v); ok {
		return p, ""
	}
	return "", homeUnknown
}

func asDirectory(v string, at place) (string, string) {
	p, ok := at.resolve(v)
	if !ok {
		return "", homeUnknown
	}
	if info, err := os.Stat(p); err != nil || !info.IsDir() {
		return "", "an existing directory"
	}
	return p, ""
}

func asName(v string, _ place) (string, string) {
	if agent.CheckName("name", v) != nil {
		return "", "a letter or digit, then up to 63 of A-Z a-z 0-9 . _ -"
	}
	return v, ""
}

func asUser(v string, _ place) (string, string) {
	bad := func(r rune) bool { return r == '/' || unicode.IsControl(r) || unicode.IsSpace(r) }
	if len(v) > 128 || strings.ContainsFunc(v, bad) {
		return "", "up to 128 characters without spaces and /"
	}
	return v, ""
}

// CheckUser returns what is allowed as a user id, or "" if v is one.
func CheckUser(v string) string {
	if v == "" {
		return "up to 128 characters without spaces and /, at least one"
	}
	_, allowed := asUser(v, place{})
	return allowed
}

func asToken(v string, _ place) (string, string) {
	if len(v) < 16 || strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", "at least 16 characters without spaces"
	}
	return v, ""
}

func asKeys(v string, at place) (string, string) {
	if path, ok := strings.CutPrefix(v, encryption.FilePrefix); ok && !strings.ContainsRune(path, 0) {
		path, known := at.resolve(path)
		if !known {
			return "", homeUnknown
		}
		v = encryption.FilePrefix + path
	}
	keys, err := encryption.Load(v)
	if err == nil && !keys.Any() {
		err = errors.New("there is no key in it")
	}
	if err != nil {
		return "", encryption.Allowed + whatIsWrong + err.Error()
	}
	return v, ""
}

// whatIsWrong stands between what is allowed and what is wrong with a value that is
// not shown.
const whatIsWrong = "; here: "

func asTaskQueue(v string, _ place) (string, string) {
	if len(v) > 200 || strings.ContainsFunc(v, unicode.IsControl) || strings.HasPrefix(v, "/_sys") {
		return "", "up to 200 printable characters"
	}
	return v, ""
}

func asStore(v string, at place) (string, string) {
	if v == "memory" { // YAML does not take a bare word that ends in a colon
		v = "memory:"
	}
	scheme, rest, ok := strings.Cut(v, ":")
	switch {
	case ok && v == "memory:":
		return v, ""
	case ok && scheme == "sqlite" && rest != "" && rest != ":memory:":
		path, query, hasQuery := strings.Cut(rest, "?")
		path, known := at.resolve(path)
		if !known {
			return "", homeUnknown
		}
		if hasQuery {
			path += "?" + query
		}
		return "sqlite:" + path, ""
	case ok && scheme == "file" && rest != "":
		dir, query, hasQuery := strings.Cut(strings.TrimPrefix(rest, "//"), "?")
		if dir == "" || hasQuery && !strings.HasPrefix(query, "prefix=") {
			return "", storesAllowed + "; file:DIR may end in ?prefix=NAME"
		}
		dir, known := at.resolve(dir)
		if !known {
			return "", homeUnknown
		}
		if hasQuery {
			dir += "?" + query
		}
		return "file:" + dir, ""
	case ok && (scheme == "postgres" || scheme == "postgresql"):
		if u, err := url.Parse(v); err == nil && strings.HasPrefix(rest, "//") && (u.Host != "" || u.Query().Get("host") != "") {
			return v, ""
		}
	}
	return "", storesAllowed
}

func asAddress(v string, _ place) (string, string) {
	const allowed = "HOST:PORT, for instance localhost:7233"
	// gRPC resolver targets such as dns:///host:port are passed through.
	if _, endpoint, ok := strings.Cut(v, ":///"); ok && endpoint != "" {
		return v, ""
	}
	host, port, err := net.SplitHostPort(v)
	if err != nil || host == "" {
		return "", allowed
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", allowed
	}
	return v, ""
}

func asURL(v string, _ place) (string, string) {
	u, err := url.Parse(v)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", "an http:// or https:// URL"
	}
	return strings.TrimRight(v, "/"), ""
}

func asBool(v string, _ place) (string, string) {
	switch strings.ToLower(v) {
	case "1", "true", "yes", "on":
		return "true", ""
	case "0", "false", "no", "off":
		return "false", ""
	}
	return "", "true, false, 1, 0, yes, no, on or off"
}

func asCount(least, most int) func(string, place) (string, string) {
	return func(v string, _ place) (string, string) {
		n, err := strconv.Atoi(v)
		if err != nil || n < least || n > most {
			return "", fmt.Sprintf("a whole number from %d to %d", least, most)
		}
		return strconv.Itoa(n), ""
	}
}

func asDuration(v string, _ place) (string, string) {
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 {
		return "", "a duration above zero such as 90s, 15m or 2h"
	}
	return d.String(), ""
}

func asDurationOrNone(v string, at place) (string, string) {
	if d, err := time.ParseDuration(v); err == nil && d == 0 {
		return "0s", ""
	}
	out, allowed := asDuration(v, at)
	if allowed != "" {
		allowed += ", or 0s for none"
	}
	return out, allowed
}

func asDollars(v string, _ place) (string, string) {
	f, err := strconv.ParseFloat(strings.TrimPrefix(v, "$"), 64)
	if err != nil || f < 0 || f > 1e9 {
		return "", "US dollars from 0 such as 0.25 or 5"
	}
	return strconv.FormatFloat(f, 'f', -1, 64), ""
}

func asWindow(v string, at place) (string, string) {
	out, allowed := asCount(0, 100_000_000)(v, at)
	if n, err := strconv.Atoi(out); err == nil && n > 0 && n < 256 || allowed != "" {
		return "", "tokens from 256, or 0 for what is known of the model"
	}
	return out, ""
}

func asModels(v string, _ place) (string, string) {
	var names []string
	for name := range strings.SplitSeq(v, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
			return "", "names of models, separated by commas"
		}
		names = append(names, name)
	}
	return strings.Join(names, ","), ""
}

func asAgents(v string, _ place) (string, string) {
	var names []string
	for _, name := range strings.Split(v, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if agent.CheckAgentType(name) != nil {
			return "", "names of agents, separated by commas"
		}
		names = append(names, name)
	}
	return strings.Join(names, ","), ""
}
