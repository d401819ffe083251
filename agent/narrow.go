package agent

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// A person who allows a call for the rest of a session may allow less than all calls of
// its tool: those that are like it.

var (
	// plainWord is the name of a program, or of what it is to do.
	plainWord = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.+-]*$`)
	// moreWork is what makes the shell run or write more than one command.
	moreWork = ";&|<>$`\\\n\r(){}"
	// anything are programs that run or write whatever their arguments say: one call of
	// them says nothing about the next.
	anything = strings.Fields("ash awk bash bun busybox chroot command csh dash dd deno doas ed env eval ex exec expect find fish flock gawk gdb ionice ksh lua make mawk " +
		"nc nice node nohup nsenter parallel perl php pwsh python python2 python3 rm ruby script sed setsid sh socat source ssh stdbuf strace su sudo systemd-run tclsh tee time " +
		"timeout unshare vi vim watch xargs zsh")
	// parted are programs whose first argument says what they do.
	parted = strings.Fields("apt apt-get brew cargo docker gh git go helm kubectl npm pip pip3 pnpm podman systemctl terraform uv yarn")
	// partedAnything are parts that run whatever their arguments say.
	partedAnything = strings.Fields("config exec run tool vet x")
)

// NarrowRule is the rule that allows the calls which are like one: shell(date *),
// shell(git status *), web_fetch(go.dev). It is "" if nothing narrower than the tool can
// be said.
func NarrowRule(tool string, args json.RawMessage) string {
	var text string
	if json.Unmarshal(args, &text) == nil { // arguments as JSON text
		args = json.RawMessage(text)
	}
	var of struct {
		Command string `json:"command"`
		URL     string `json:"url"`
	}
	if json.Unmarshal(args, &of) != nil {
		return ""
	}
	like := ""
	switch tool {
	case "shell":
		like = likeCommand(of.Command)
	case "web_fetch":
		if u, err := url.Parse(of.URL); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
			like = strings.ToLower(u.Host)
		}
	}
	if like == "" {
		return ""
	}
	return tool + "(" + like + ")"
}

// likeCommand is the pattern of commands like one.
func likeCommand(line string) string {
	words := strings.Fields(line)
	if len(words) == 0 || strings.ContainsAny(line, moreWork) || !plainWord.MatchString(words[0]) || slices.Contains(anything, words[0]) {
		return ""
	}
	if !slices.Contains(parted, words[0]) {
		return words[0] + " *"
	}
	if len(words) < 2 || !plainWord.MatchString(words[1]) || slices.Contains(partedAnything, words[1]) {
		return ""
	}
	return words[0] + " " + words[1] + " *"
}
