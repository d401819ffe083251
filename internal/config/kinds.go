package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/encryption"
)

// kind says how the value of a setting is read.
type kind struct {
	// allowed is for people: "X is not valid: use …".
	allowed string
	// read keeps a value and returns it in its final form. errWrong means that it is
	// not what is allowed; another error says itself what to use.
	read func(v string, at place) (string, error)
	// mask hides a value that is secret; nil = it is not.
	mask func(v string) string
	// folder says when the spool.yaml of a folder sets it although no person has agreed
	// to the file: "" = not.
	folder string
}

var errWrong = errors.New("wrong value")

// place is what a path is relative to.
type place struct {
	dir string // of relative paths
	// home is what a leading ~ means; "" if it cannot be known.
	home string
}

// resolve makes a path absolute; a leading ~ is the user's home directory.
func (p place) resolve(path string) (string, error) {
	if path == "~" || strings.HasPrefix(path, "~/") {
		if p.home == "" {
			return "", errors.New("an absolute path: HOME is not set here and this user has no home directory")
		}
		path = filepath.Join(p.home, path[1:])
	}
	if strings.ContainsRune(path, 0) {
		return "", errWrong
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.dir, path)
	}
	return filepath.Clean(path), nil
}

// userHome is the home directory of who runs the process: HOME, or what the
// system's list of users says.
func userHome(env func(string) string) string {
	for _, name := range []string{"HOME", "USERPROFILE"} {
		if h := env(name); filepath.IsAbs(h) {
			return h
		}
	}
	if u, err := user.Current(); err == nil && filepath.IsAbs(u.HomeDir) {
		return u.HomeDir
	}
	return ""
}

func where(to *string, allowed string, valid func(string) bool) kind {
	return parsed(to, allowed, func(v string, _ place) (string, error) {
		if !valid(v) {
			return "", errWrong
		}
		return v, nil
	}, same)
}

func text(to *string) kind { return where(to, "any text", func(string) bool { return true }) }

func name(to *string) kind {
	return where(to, "a letter or digit, then up to 63 of A-Z a-z 0-9 . _ -", func(v string) bool { return agent.CheckName("name", v) == nil })
}

const userAllowed = "up to 128 characters without spaces and /"

func isUser(v string) bool {
	bad := func(r rune) bool { return r == '/' || unicode.IsControl(r) || unicode.IsSpace(r) }
	return len(v) <= 128 && !strings.ContainsFunc(v, bad)
}

func userID(to *string) kind { return where(to, userAllowed, isUser) }

// CheckUser returns what is allowed as a user id, or "" if v is one.
func CheckUser(v string) string {
	if v == "" || !isUser(v) {
		return userAllowed + ", at least one"
	}
	return ""
}

func queue(to *string) kind {
	return where(to, "up to 200 printable characters", func(v string) bool {
		return len(v) <= 200 && !strings.ContainsFunc(v, unicode.IsControl) && !strings.HasPrefix(v, "/_sys")
	})
}

func address(to *string) kind {
	return where(to, "HOST:PORT, for instance localhost:7233", func(v string) bool {
		// gRPC resolver targets such as dns:///host:port are passed through.
		if _, endpoint, ok := strings.Cut(v, ":///"); ok && endpoint != "" {
			return true
		}
		host, port, err := net.SplitHostPort(v)
		n, perr := strconv.Atoi(port)
		return err == nil && perr == nil && host != "" && n >= 1 && n <= 65535
	})
}

// listenAddress is where to listen. A port alone is one of loopback.
func listenAddress(to *string) kind {
	return parsed(to, "a port, or HOST:PORT such as 0.0.0.0:9464", func(v string, _ place) (string, error) {
		if !strings.Contains(v, ":") {
			v = net.JoinHostPort("127.0.0.1", v)
		}
		_, port, err := net.SplitHostPort(v)
		if n, perr := strconv.Atoi(port); err != nil || perr != nil || n < 0 || n > 65535 {
			return "", errWrong
		}
		return v, nil
	}, same)
}

func hidden(to *Secret, allowed string, valid func(string) bool) kind {
	k := where(&to.value, allowed, valid)
	k.mask = func(v string) string { return NewSecret(v).String() }
	return k
}

func secret(to *Secret) kind { return hidden(to, "any text", func(string) bool { return true }) }

func token(to *Secret) kind {
	return hidden(to, "at least 16 characters without spaces", func(v string) bool {
		return len(v) >= 16 && !strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r > '~' })
	})
}

// parsed is a value that parse turns into another form.
func parsed[T any](to *T, allowed string, parse func(v string, at place) (T, error), final func(T) string) kind {
	return kind{allowed: allowed, read: func(v string, at place) (string, error) {
		out, err := parse(v, at)
		if err != nil {
			return "", err
		}
		*to = out
		return final(out), nil
	}}
}

func same(v string) string { return v }

func path(to *string) kind {
	return parsed(to, "a path", func(v string, at place) (string, error) { return at.resolve(v) }, same)
}

func directory(to *string) kind {
	return parsed(to, "an existing directory", func(v string, at place) (string, error) {
		p, err := at.resolve(v)
		if err != nil {
			return "", err
		}
		if info, err := os.Stat(p); err != nil || !info.IsDir() {
			return "", errWrong
		}
		return p, nil
	}, same)
}

func webURL(to *string) kind {
	return parsed(to, "an http:// or https:// URL", func(v string, _ place) (string, error) {
		u, err := url.Parse(v)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return "", errWrong
		}
		return strings.TrimRight(v, "/"), nil
	}, same)
}

func serverURL(to *string) kind {
	k := webURL(to)
	k.mask = func(v string) string { return NewSecret(v).String() }
	return k
}

func boolean(to *bool) kind {
	return parsed(to, "true, false, 1, 0, yes, no, on or off", func(v string, _ place) (bool, error) {
		switch strings.ToLower(v) {
		case "1", "true", "yes", "on":
			return true, nil
		case "0", "false", "no", "off":
			return false, nil
		}
		return false, errWrong
	}, strconv.FormatBool)
}

func whole[T int | int64](to *T, least, most, unit int64) kind {
	return parsed(to, fmt.Sprintf("a whole number from %d to %d", least, most), func(v string, _ place) (T, error) {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < least || n > most {
			return 0, errWrong
		}
		return T(n * unit), nil
	}, func(n T) string { return strconv.FormatInt(int64(n)/unit, 10) })
}

func window(to *int64) kind {
	return parsed(to, "tokens from 256, or 0 for what is known of the model", func(v string, _ place) (int64, error) {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n != 0 && (n < 256 || n > 100_000_000) {
			return 0, errWrong
		}
		return n, nil
	}, func(n int64) string { return strconv.FormatInt(n, 10) })
}

const durationAllowed = "a duration above zero such as 90s, 15m or 2h"

func duration(to *time.Duration) kind { return durationFrom(to, 1, durationAllowed) }

func durationOrNone(to *time.Duration) kind {
	return durationFrom(to, 0, durationAllowed+", or 0s for none")
}

func durationFrom(to *time.Duration, least time.Duration, allowed string) kind {
	return parsed(to, allowed, func(v string, _ place) (time.Duration, error) {
		d, err := time.ParseDuration(v)
		if err != nil || d < least {
			return 0, errWrong
		}
		return d, nil
	}, time.Duration.String)
}

func dollars(to *float64) kind {
	return parsed(to, "US dollars from 0 such as 0.25 or 5", func(v string, _ place) (float64, error) {
		f, err := strconv.ParseFloat(strings.TrimPrefix(v, "$"), 64)
		if err != nil || !(f >= 0 && f <= 1e9) { // NaN is neither
			return 0, errWrong
		}
		return f, nil
	}, func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) })
}

func list(to *[]string, allowed string, valid func(string) bool) kind {
	return parsed(to, allowed, func(v string, _ place) (names []string, _ error) {
		for name := range strings.SplitSeq(v, ",") {
			if name = strings.TrimSpace(name); name == "" {
				continue
			}
			if !valid(name) {
				return nil, errWrong
			}
			names = append(names, name)
		}
		return names, nil
	}, func(names []string) string { return strings.Join(names, ",") })
}

func models(to *[]string) kind {
	return list(to, "names of models, separated by commas", func(name string) bool {
		return !strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
	})
}

var rule = regexp.MustCompile(`^[^\s(),]+(\(.+\))?$`)

// rules are names of tools, each with a pattern if wanted. What stands between brackets
// may have commas.
func rules(to *[]string) kind {
	return parsed(to, "rules TOOL or TOOL(PATTERN), separated by commas", func(v string, _ place) (out []string, _ error) {
		depth := 0
		for one := range strings.FieldsFuncSeq(v, func(r rune) bool {
			depth += map[rune]int{'(': 1, ')': -1}[r]
			return r == ',' && depth == 0
		}) {
			if one = strings.TrimSpace(one); !rule.MatchString(one) {
				return nil, errWrong
			}
			out = append(out, one)
		}
		return out, nil
	}, func(rules []string) string { return strings.Join(rules, ",") })
}

func disabled(to *map[string]bool) kind {
	var names []string
	k := list(&names, "names of agents, separated by commas", func(name string) bool { return agent.CheckAgentType(name) == nil })
	read := k.read
	k.read = func(v string, at place) (string, error) {
		out, err := read(v, at)
		for _, name := range names {
			(*to)[name] = false
		}
		return out, err
	}
	return k
}

// keys are keys of encryption, given or in a file.
func keys(to *encryption.Keys) kind {
	return kind{allowed: encryption.Allowed, mask: maskKeys, read: func(v string, at place) (string, error) {
		if path, ok := strings.CutPrefix(v, encryption.FilePrefix); ok {
			path, err := at.resolve(path)
			if err != nil {
				return "", err
			}
			v = encryption.FilePrefix + path
		}
		found, err := encryption.Load(v)
		if err == nil && !found.Any() {
			err = errors.New("there is no key in it")
		}
		if err != nil {
			return "", errors.New(encryption.Allowed + "; here: " + err.Error())
		}
		*to = found
		return v, nil
	}}
}

const storesAllowed = "sqlite:PATH, postgres://USER@HOST/DB, file:DIR or memory:"

func store(to *string) kind { return parsed(to, storesAllowed, readStore, same) }

func readStore(v string, at place) (string, error) {
	if v == "memory" { // YAML does not take a bare word that ends in a colon
		v = "memory:"
	}
	scheme, rest, _ := strings.Cut(v, ":")
	path, query, hasQuery := strings.Cut(rest, "?")
	switch scheme {
	case "memory":
		if rest == "" {
			return v, nil
		}
	case "file":
		if hasQuery && !strings.HasPrefix(query, "prefix=") {
			return "", errors.New(storesAllowed + "; file:DIR may end in ?prefix=NAME")
		}
		path = strings.TrimPrefix(path, "//")
		fallthrough
	case "sqlite":
		if path == "" || path == ":memory:" {
			return "", errWrong
		}
		path, err := at.resolve(path)
		if err == nil && hasQuery {
			path += "?" + query
		}
		return scheme + ":" + path, err
	case "postgres", "postgresql":
		if u, err := url.Parse(v); err == nil && strings.HasPrefix(rest, "//") && (u.Host != "" || u.Query().Get("host") != "") {
			return v, nil
		}
	}
	return "", errWrong
}
