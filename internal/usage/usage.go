// Package usage says how the program is used: its version, the help of its commands,
// and what a shell completes.
package usage

import (
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/internal/printer"
)

// Build is what this program was built of.
type Build struct {
	Version string `json:"version"`
	// Commit is empty if the program was not built in a repository; Modified means
	// that files differed from it.
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
}

// ThisBuild is that of the running program.
func ThisBuild() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Build{Version: "unknown"}
	}
	b := Build{Version: info.Main.Version, Go: info.GoVersion}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (b Build) String() string {
	from := b.Go
	if b.Commit != "" {
		from = "commit " + b.Commit + ", " + b.Go
	}
	if b.Modified {
		from += ", with changes"
	}
	return "spool " + b.Version + " (" + from + ")"
}

// Version is the command that prints the version.
type Version struct{}

// Run prints it.
func (Version) Run(p *printer.Printer) error {
	b := ThisBuild()
	return p.Show(b, func() { p.Print("%s", b) })
}

// Help prints the help of a command: what is its own, the names of the global flags
// that it uses, and its example, which the tag eg holds. That of the program has all
// global flags and the exit codes.
func Help(command string, globals []string) kong.HelpPrinter {
	return func(o kong.HelpOptions, k *kong.Context) error {
		n, after := k.Selected(), "\nExit codes: 0 done, 1 the turn or check failed, 2 usage, 3 not found, 4 busy, conflict or\n"+
			"already decided, 5 Temporal or the store cannot be reached or no worker is running,\n6 waiting for a person, 130 interrupted.\n"
		if n != nil {
			for _, f := range k.Model.Flags {
				f.Hidden = true
			}
			after = ""
			if len(globals) > 0 {
				after = "\nGlobal flags (see " + k.Model.Name + " --help): --" + strings.Join(globals, ", --") + "\n"
			}
			if eg := n.Tag.Get("eg"); eg != "" {
				after += "\nExample: " + k.Model.Name + " " + command + " " + eg + "\n"
			}
		}
		if err := kong.DefaultHelpPrinter(o, k); err != nil {
			return err
		}
		_, err := fmt.Fprint(k.Stdout, after)
		return err
	}
}

// Completion is the command that prints what makes a shell complete.
type Completion struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// scripts ask the program itself what a line can go on with: one word a line, or
// nothing, and then it is files.
var scripts = map[string]string{
	"bash": `_spool() { local IFS=$'\n'; COMPREPLY=($("${COMP_WORDS[0]}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)); }
complete -o default -F _spool NAME
`,
	"zsh": `#compdef NAME
_spool() {
  local -a found
  found=("${(@f)$("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "${found[1]}" ]]; then compadd -a found; else _files; fi
}
compdef _spool NAME
`,
	"fish": `function _spool
    set -l words (commandline -opc) (commandline -ct)
    $words[1] complete -- $words[2..] 2>/dev/null
end
complete -c NAME -a '(_spool)'
`,
}

// Run prints the script for the name that the program has here.
func (c *Completion) Run(p *printer.Printer) error {
	words := strings.Fields(p.Name)
	_, err := p.Out.Write([]byte(strings.ReplaceAll(scripts[c.Shell], "NAME", filepath.Base(words[len(words)-1]))))
	return err
}

// Complete is the command that those scripts call.
type Complete struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

// Run prints what the last word can become.
func (c *Complete) Run(p *printer.Printer, k *kong.Kong) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	for _, word := range Words(k.Model.Node, words) {
		p.Print("%s", word)
	}
	return nil
}

// Words are those that the last word of a command line can become: commands, flags,
// and values of flags that have a list of them.
func Words(at *kong.Node, line []string) (found []string) {
	if len(line) == 0 {
		line = []string{""}
	}
	last, before := line[len(line)-1], ""
	flags := at.Flags
	for _, word := range line[:len(line)-1] {
		if i := slices.IndexFunc(at.Children, func(n *kong.Node) bool { return n.Name == word }); i >= 0 {
			at = at.Children[i]
			flags = append(slices.Clone(flags), at.Flags...)
		}
		before = word
	}
	add := func(word string) {
		if strings.HasPrefix(word, last) {
			found = append(found, word)
		}
	}
	for _, f := range flags {
		if "--"+f.Name == before && !f.IsBool() {
			for _, value := range choices(f) {
				add(value)
			}
			return found
		}
		if strings.HasPrefix(last, "-") && !f.Hidden {
			add("--" + f.Name)
		}
	}
	for _, n := range at.Children {
		if !n.Hidden {
			add(n.Name)
		}
	}
	for _, arg := range at.Positional {
		for _, value := range arg.EnumSlice() {
			add(value)
		}
	}
	return found
}

// choices are the values of a flag that takes one of a few: its enum, or queue|steer|reject.
func choices(f *kong.Flag) []string {
	list := f.EnumSlice()
	if strings.Contains(f.PlaceHolder, "|") {
		list = strings.Split(f.PlaceHolder, "|")
	}
	return slices.DeleteFunc(list, func(v string) bool { return v == "" || strings.ToLower(v) != v })
}

// HelpOf is the command that prints the help of another one.
type HelpOf struct {
	Command []string `arg:"" optional:"" help:"The command, such as send, or sessions export."`
}

// Run prints it as COMMAND --help does; run runs a command line.
func (c *HelpOf) Run(run func(args []string) int) error {
	return exit.With(run(append(slices.Clone(c.Command), "--help")))
}
