package tool

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/spool-agents/spool/agent"
)

// Gate says whether a call runs at once, asks a person or is refused.
//
// The policy maps rules to auto, ask or deny. A rule is a tool name
// (file_write), names with * (mcp__github__*, or * for all tools), or a name
// with a pattern for the call's main argument: shell(git *), file_write(docs/*),
// web_fetch(https://go.dev/*); for tools of others the whole arguments as
// compact JSON. In a pattern * stands for any text, / included.
//
// The most specific rule that matches decides: a rule with a pattern before one
// without, among those the one with more fixed characters; the exact name before
// a name with *. Of equally specific rules the strictest wins: deny, ask, auto.
// Without a rule, what the tool itself states holds (ToolSpec.Gate); else
// read-only tools are auto, all others ask.
//
// A pattern never lets more through than it shows: shell rules with auto apply
// to a single plain command only, without ; | & > $( and the like, while ask and
// deny apply if any part of the command line matches. Still, deny patterns are a
// guard against mistakes and no sandbox: a command can be written in many ways.
//
// A path of grep is what its rules are about, not what it searches for. Rules of file_read
// with patterns hold for what grep and file_edit show, too.
//
// Rules that ask or deny hold in any spelling that some file system takes for the same.
//
// Paths are matched as they are given and as they are without links, both from the
// thread's folder; the stricter of the two holds. Before something is written to a
// protected name a person is asked each time, unless it is denied.
//
// A pattern of web_fetch without / is that of a host: web_fetch(*.python.org).
// Without a rule, hosts that the conversation names are fetched at once.
//
// A tool that is not registered is auto: running it only says so.
func (r *Registry) Gate(name string, run agent.ToolRun, policy map[string]string) agent.Gate {
	e := r.byName[name]
	if e == nil {
		return agent.GateAuto
	}
	return Gate(e.spec, run, policy)
}

// Gate is Registry.Gate for a tool that stands in no registry.
func Gate(spec agent.ToolSpec, run agent.ToolRun, policy map[string]string) agent.Gate {
	run.Args = normalArgs(run.Args)
	subject, known := mainArgument(spec.Name, run.Args)
	if rel, err := filepath.Rel(run.Workdir, subject); isPathTool(spec.Name) && err == nil && filepath.IsLocal(rel) {
		subject = rel
	}
	gate := gateOf(spec, run, subject, policy)
	if name, err := strconv.Unquote(subject); err == nil && isPathTool(spec.Name) { // as ls lists names that are no text
		gate = gate.Stricter(gateOf(spec, run, name, policy))
	}
	if gate == agent.GateDeny || (known && !isPathTool(spec.Name)) {
		return gate
	}
	shows := showing(spec, run, policy)
	gate = gate.Stricter(shows(subject))
	var l lead
	w, err := openWorkspace(run)
	if err == nil {
		defer func() { _ = w.Close() }()
	}
	if known {
		if l = leadOf(w, run, subject); l.path != "" {
			gate = gate.Stricter(gateOf(spec, run, l.path, policy)).Stricter(shows(l.path))
		}
	} else {
		l = leads(w, run)
	}
	if l.home || (l.protected && !spec.ReadOnly) {
		gate = gate.Stricter(agent.GateAskEach)
	}
	return gate
}

// showing is what the rules about reading with patterns say of a tool that shows what is
// in files.
func showing(spec agent.ToolSpec, run agent.ToolRun, policy map[string]string) func(path string) agent.Gate {
	reads := Reads(run, patternsOnly(policy))
	if reads == nil || spec.Name != "file_edit" && spec.Name != "grep" {
		return func(string) agent.Gate { return agent.GateAuto }
	}
	return reads
}

// gateOf is what the rules, or the tool itself, say about a subject. Rules that ask or
// deny hold for its other spellings too.
func gateOf(spec agent.ToolSpec, run agent.ToolRun, subject string, policy map[string]string) agent.Gate {
	return gateAs(spec, run, subject, policy, false).Stricter(gateAs(spec, run, subject, policy, true))
}

func gateAs(spec agent.ToolSpec, run agent.ToolRun, subject string, policy map[string]string, anySpelling bool) agent.Gate {
	best, rank := agent.Gate(""), -1
	for rule, word := range policy {
		gate := toGate(word)
		n := ruleRank(rule, spec.Name, subject, run.Workdir, gate)
		if anySpelling && gate != agent.GateAuto {
			held, as := inOneSpelling(rule, spec.Name, subject)
			n = ruleRank(held, spec.Name, as, oneSpelling(run.Workdir), gate)
		}
		if n > rank {
			best, rank = gate, n
		} else if n == rank && n >= 0 {
			best = best.Stricter(gate)
		}
	}
	switch {
	case rank >= 0:
		return best
	case spec.Gate != "":
		return spec.Gate
	case spec.Name == "web_fetch":
		if host := hostOf(subject); host != "" && !privateURL(subject) && run.Named != nil && run.Named(host) {
			return agent.GateAuto
		}
		return agent.GateAsk
	case spec.ReadOnly:
		return agent.GateAuto
	}
	return agent.GateAsk
}

// inOneSpelling are a rule and a subject without what some file system does not look at.
func inOneSpelling(rule, tool, subject string) (string, string) {
	name, pattern, hasPattern := SplitRule(rule)
	if !hasPattern {
		return rule, subject
	}
	if isPathTool(tool) {
		parts := strings.Split(subject, "/")
		for i, part := range parts {
			parts[i] = cmp.Or(plainName(part), part)
		}
		subject = strings.Join(parts, "/")
	}
	return name + "(" + oneSpelling(pattern) + ")", oneSpelling(subject)
}

// Reads is what policies say about showing what is in a file, by whichever tool: the
// rules of file_read and grep that have patterns. nil = nothing.
func Reads(run agent.ToolRun, policies ...map[string]string) func(path string) agent.Gate {
	type bound struct {
		spec   agent.ToolSpec
		policy map[string]string
	}
	var bounds []bound
	for _, spec := range []agent.ToolSpec{FileRead().Spec(), Grep().Spec()} {
		for _, policy := range policies {
			if hasPatterns(policy, spec.Name) {
				bounds = append(bounds, bound{spec, policy})
			}
		}
	}
	if bounds == nil {
		return nil
	}
	return func(path string) agent.Gate {
		gate := agent.GateAuto
		for _, b := range bounds {
			gate = gate.Stricter(gateOf(b.spec, run, path, b.policy))
		}
		return gate
	}
}

func patternsOnly(policy map[string]string) map[string]string {
	rules := maps.Clone(policy)
	maps.DeleteFunc(rules, func(rule, _ string) bool {
		_, _, has := SplitRule(rule)
		return !has
	})
	return rules
}

func hasPatterns(policy map[string]string, tool string) bool {
	for rule := range policy {
		if name, _, has := SplitRule(rule); has && (name == tool || strings.Contains(name, "*") && wildcard(name, tool)) {
			return true
		}
	}
	return false
}

// CheckRule returns what is wrong with a rule of a policy, or "".
func CheckRule(rule, gate string) string {
	switch agent.Gate(gate) {
	case agent.GateAuto, agent.GateAsk, agent.GateDeny:
	default:
		return fmt.Sprintf("approval of %s is %q, allowed are auto, ask and deny", rule, gate)
	}
	if len(rule) > longestPattern {
		return fmt.Sprintf("approval rule %.40q… is too long: it has %d bytes, at most %d are possible", rule, len(rule), longestPattern)
	}
	name, _, hasPattern := SplitRule(rule)
	if name == "" || strings.ContainsAny(name, "()") || (strings.Contains(rule, "(") && !hasPattern) {
		return fmt.Sprintf("approval rule %q is not valid: use TOOL or TOOL(PATTERN)", rule)
	}
	return ""
}

// SplitRule takes tool(pattern) apart.
func SplitRule(rule string) (name, pattern string, hasPattern bool) {
	rule = strings.TrimSpace(rule)
	name, rest, ok := strings.Cut(rule, "(")
	if !ok || !strings.HasSuffix(rest, ")") {
		return rule, "", false
	}
	return strings.TrimSpace(name), strings.TrimSuffix(rest, ")"), true
}

// toGate reads an unknown word as ask, the safe side.
func toGate(s string) agent.Gate {
	switch g := agent.Gate(s); g {
	case agent.GateAuto, agent.GateDeny:
		return g
	}
	return agent.GateAsk
}

// ruleRank is how specific a rule is for a call, -1 if it does not match.
func ruleRank(rule, tool, subject, dir string, gate agent.Gate) int {
	const exact, withPattern = 1 << 16, 1 << 20
	name, pattern, hasPattern := SplitRule(rule)
	rank := exact
	if name != tool {
		if !strings.ContainsAny(name, "*?") || !wildcard(name, tool) {
			return -1
		}
		rank = len(strings.ReplaceAll(name, "*", ""))
	}
	if !hasPattern {
		return rank
	}
	if isPathTool(tool) {
		pattern, subject = norm.NFC.String(pattern), norm.NFC.String(subject)
		if path.IsAbs(pattern) && !path.IsAbs(subject) {
			subject = path.Join(dir, subject)
		}
	}
	if !subjectMatches(tool, pattern, subject, gate) {
		return -1
	}
	return withPattern + rank + len(strings.ReplaceAll(pattern, "*", ""))
}

func subjectMatches(tool, pattern, subject string, gate agent.Gate) bool {
	// Claude Code writes git:* where others write git *.
	if p, ok := strings.CutSuffix(pattern, ":*"); ok && tool == "shell" {
		pattern = p + " *"
	}
	match := func(s string) bool {
		all := tool == "grep" || gate != agent.GateAuto && isPathTool(tool) // a folder is all that is in it
		if wildcard(pattern, s) || all && wildcard(pattern, s+"/") {
			return true
		}
		p, ok := strings.CutSuffix(pattern, " *")
		return ok && wildcard(p, s)
	}
	switch {
	case tool == "shell" && gate == agent.GateAuto:
		// One command, without anything that makes the shell run or write more.
		return !strings.ContainsAny(subject, ";&|<>$`\\\n\r(){}") && match(strings.TrimSpace(subject))
	case tool == "shell":
		for _, part := range append(commandParts(subject), subject) {
			if match(strings.TrimSpace(part)) {
				return true
			}
		}
		return false
	case tool == "web_fetch":
		// What asks or denies holds in any spelling, what allows in the one that is meant.
		return urlMatches(pattern, subject, gate != agent.GateAuto) || gate != agent.GateAuto && (match(subject) || wildcard(strings.ToLower(pattern), hostOf(subject)))
	case gate != agent.GateAuto && isPathTool(tool) && !path.IsAbs(pattern):
		// An absolute path must not walk past a rule about a relative one.
		return match(subject) || wildcard("*/"+pattern, subject)
	}
	return match(subject)
}

// commandParts splits a command line where a new command may start. It knows no
// quotes: too many parts are on the safe side for rules that restrict.
func commandParts(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(";&|\n`(){}", r) })
}

func isPathTool(tool string) bool {
	switch tool {
	case "file_read", "file_write", "file_edit", "ls", "grep":
		return true
	}
	return false
}

// mainArgument is what the patterns of a rule are held against. Of a tool that is not
// known that is all arguments.
func mainArgument(tool string, args json.RawMessage) (subject string, known bool) {
	key := map[string]string{
		"shell": "command", "file_read": "path", "file_write": "path", "file_edit": "path", "ls": "path",
		"glob": "pattern", "grep": "path", "web_fetch": "url", "web_search": "query", "calculator": "expression",
	}[tool]
	if key == "" {
		var b bytes.Buffer
		if json.Compact(&b, args) != nil {
			return string(args), false
		}
		return b.String(), false
	}
	var fields map[string]any
	_ = json.Unmarshal(args, &fields) // arguments that cannot be read match nothing and do not run
	s, _ := fields[key].(string)
	if isPathTool(tool) && (s != "" || tool == "grep") {
		return path.Clean(s), true
	}
	return s, true
}

// wildcard matches * against any text and ? against one character.
func wildcard(pattern, s string) bool {
	p, t := []rune(pattern), []rune(s)
	star, mark := -1, 0
	i, j := 0, 0
	for j < len(t) {
		switch {
		case i < len(p) && p[i] == '*':
			star, mark = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == t[j]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}
