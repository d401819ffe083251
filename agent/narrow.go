package agent

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// A person who allows a call for the rest of a session may allow less than all calls of
// its tool: those that are like it.

var (
	// moreWork is what makes the shell run or write more than one command.
	moreWork = ";&|<>$`\\\n\r(){}"
	// plain are programs that do what their name says whatever their arguments are: they
	// read and print, or make an empty file or folder. They run nothing, and write to no
	// file that an argument names (as sort -o, uniq IN OUT, file -C and tree -o do). What
	// a folder's files could tell what to run, such as git and make, is not among them.
	plain = strings.Fields("arch b2sum basename cal cat cksum cmp comm cut date df diff dirname du echo egrep expand expr false fgrep fmt fold free " +
		"grep groups head id join ls md5sum mkdir nl nproc od paste printf ps pwd readlink realpath rev seq sha1sum sha224sum sha256sum sha384sum " +
		"sha512sum sleep stat sum tac tail test touch tr true uname unexpand uptime wc which whoami")
)

// NarrowRule is the rule that allows the calls which are like one: shell(date *),
// web_fetch(go.dev). It is "" if nothing narrower than the tool can be said.
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
	if len(words) == 0 || strings.ContainsAny(line, moreWork) || !slices.Contains(plain, words[0]) {
		return ""
	}
	return words[0] + " *"
}
