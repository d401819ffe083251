package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spool-agents/spool/agent"
)

// sections are the keys under which programs have their servers.
const sections = " mcpservers servers context_servers mcp mcp.servers "

// addServers adds the entries of all servers of a JSON object, and notes those that it has
// in more than one section.
func addServers(found map[string]json.RawMessage, twice map[string]bool, raw []byte) error {
	var doc, entries map[string]json.RawMessage
	if err := json.Unmarshal(raw, &doc); err != nil {
		return fmt.Errorf("is not the JSON expected, {\"mcpServers\": {NAME: {\"command\": …} or {\"url\": …}}}: %s", agent.PlainProblem(err.Error()))
	}
	known := len(doc) == 0
	for _, key := range slices.Sorted(maps.Keys(doc)) {
		name := strings.ToLower(key)
		if !strings.Contains(sections, " "+name+" ") {
			continue
		}
		known, entries = true, nil
		if err := json.Unmarshal(doc[key], &entries); err != nil {
			return fmt.Errorf("has %s that is no object of servers: %s", key, agent.PlainProblem(err.Error()))
		}
		for id, e := range entries {
			switch _, there := found[id]; {
			case name == "mcp" && id == "servers":
				if err := addServers(found, twice, encoded(fields{"servers": e})); err != nil {
					return err
				}
			case name == "mcp" && !bytes.HasPrefix(e, []byte("{")): // a setting
			default:
				found[id], twice[id] = e, there
			}
		}
	}
	if !known {
		return fmt.Errorf("names no servers: it has %s, and none of%s", cutLine(strings.Join(slices.Sorted(maps.Keys(doc)), ", ")), strings.Replace(sections, "mcps", "mcpS", 1))
	}
	return nil
}

var (
	comment  = regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/`)
	trailing = regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*"|,\s*[}\]]`)
)

// plainJSON blanks what JSON does not have, and programs take: a byte order mark, comments,
// commas before a closing bracket.
func plainJSON(raw []byte) []byte {
	raw = comment.ReplaceAllFunc(bytes.TrimPrefix(raw, []byte("\xEF\xBB\xBF")), func(text []byte) []byte {
		if text[0] == '/' {
			return []byte(" ")
		}
		return text
	})
	return trailing.ReplaceAllFunc(raw, func(text []byte) []byte { return bytes.TrimPrefix(text, []byte(",")) })
}
