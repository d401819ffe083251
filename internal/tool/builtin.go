package tool

import "github.com/spool-agents/spool/agent"

// Options choose the built-in tools.
type Options struct {
	// TavilyKey turns web_search on.
	TavilyKey string
	// AllowPrivate lets web_fetch reach private and loopback addresses.
	AllowPrivate bool
	// ShellMemory bounds each process of the shell, in bytes; 0 = no limit.
	ShellMemory int64
}

// Builtin returns the built-in tools. Without a key there is no web_search, so
// that no model is offered what cannot work.
func Builtin(o Options) []agent.Tool {
	tools := []agent.Tool{
		Calculator(), FileEdit(), FileRead(), FileWrite(), Glob(), Grep(), Ls(), Shell(o.ShellMemory), WebFetch(o.AllowPrivate),
	}
	if o.TavilyKey != "" {
		tools = append(tools, WebSearch(o.TavilyKey, ""))
	}
	return tools
}

// BuiltinNames lists the names of all built-in tools, web_search included.
func BuiltinNames() []string {
	return []string{"calculator", "file_edit", "file_read", "file_write", "glob", "grep", "ls", "shell", "web_fetch", "web_search"}
}
