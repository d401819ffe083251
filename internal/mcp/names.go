package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

const (
	longestName   = 64 // of a tool, at most providers
	longestServer = 32 // so that mcp__SERVER__ always stays whole
	prefix        = "mcp__"
)

// plain makes a part of a name of what providers accept.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, s)
}

// digest tells names apart that look alike after they were made plain or short.
func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "_" + hex.EncodeToString(sum[:4])
}

// short cuts a plain name to limit bytes; the digest of the original keeps
// names apart that begin alike.
func short(s, original string, limit int) string {
	if len(s) <= limit {
		return s
	}
	d := digest(original)
	return s[:limit-len(d)] + d
}

// serverName is a server's part of its tools' names. It holds no __, so that
// mcp__SERVER__TOOL can be read in one way only.
func serverName(id string) string {
	s := plain(id)
	for strings.Contains(s, "__") {
		s = strings.ReplaceAll(s, "__", "_")
	}
	if s = strings.Trim(s, "_"); s == "" {
		s = "server" + digest(id)
	}
	return strings.TrimRight(short(s, id, longestServer), "_")
}

// origin is a tool as its server calls it.
type origin struct{ server, tool string }

func (o origin) plainName() string {
	head := prefix + serverName(o.server) + "__"
	return head + short(plain(o.tool), o.tool, longestName-len(head))
}

// exact reports that the name is the one the server uses.
func (o origin) exact() bool {
	return o.plainName() == prefix+o.server+"__"+o.tool
}

// nameAll gives every tool its name for models. A name depends on which tools
// there are, not on their order: where two would get the same name, the one
// whose own name it is keeps it, and the others carry a digest.
func nameAll(tools []origin) map[origin]string {
	byName := map[string][]origin{}
	for _, o := range tools {
		byName[o.plainName()] = append(byName[o.plainName()], o)
	}
	names := map[origin]string{}
	for name, alike := range byName {
		slices.SortFunc(alike, func(a, b origin) int {
			if a.exact() != b.exact() {
				if a.exact() {
					return -1
				}
				return 1
			}
			if c := strings.Compare(a.server, b.server); c != 0 {
				return c
			}
			return strings.Compare(a.tool, b.tool)
		})
		for i, o := range alike {
			if i == 0 && (len(alike) == 1 || o.exact()) {
				names[o] = name
				continue
			}
			d := digest(o.server + "\x00" + o.tool)
			names[o] = name[:min(len(name), longestName-len(d))] + d
		}
	}
	return names
}

// serverOf is the server's part of a tool's name, "" if it is not one of ours.
func serverOf(name string) string {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return ""
	}
	server, tool, ok := strings.Cut(rest, "__")
	if !ok || tool == "" {
		return ""
	}
	return server
}
