package starter

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// model is the grammar as kong sees it.
func model(t *testing.T) *kong.Node {
	t.Helper()
	parser, err := kong.New(new(grammar), lists, kong.Name("starter"), kong.Bind(&app{}))
	require.NoError(t, err)
	return parser.Model.Node
}

// commandsOf are those that people type, each with those below it.
func commandsOf(n *kong.Node) (found []*kong.Node) {
	for _, c := range n.Children {
		if c.Hidden {
			continue
		}
		if len(c.Children) == 0 {
			found = append(found, c)
		}
		found = append(found, commandsOf(c)...)
	}
	return found
}

// docs/commands.md is made of the grammar.
func TestDocumentOfCommands(t *testing.T) {
	root := model(t)
	var b strings.Builder
	b.WriteString("# Commands of starter\n\nMade of the program's grammar; `starter COMMAND --help` prints the same. Exit codes: [README](../README.md#exit-codes). " +
		"The settings behind the flags: [settings.md](settings.md). `worker --help` has those of the worker.\n\n## Global flags\n\n" +
		"Each command names below those that it uses, and refuses the others.\n\n")
	flags(&b, root.Flags)
	for _, c := range commandsOf(root) {
		path := commandPath(c)
		usage := "starter " + path
		for _, arg := range c.Positional {
			usage += " " + strings.Replace(arg.Summary(), " ...", "...", 1)
		}
		fmt.Fprintf(&b, "## %s\n\n%s\n\n```text\n%s\n```\n\n", path, c.Help, usage)
		for _, arg := range c.Positional {
			fmt.Fprintf(&b, "- `%s`: %s\n", arg.Name, cell(arg.Help))
		}
		if len(c.Positional) > 0 {
			b.WriteString("\n")
		}
		flags(&b, c.Flags)
		var last []string
		if used := uses[path]; used != "" {
			last = append(last, "Global flags: `--"+strings.Join(strings.Fields(used), "`, `--")+"`.")
		}
		if eg := c.Tag.Get("eg"); eg != "" {
			last = append(last, "Example: `starter "+path+" "+eg+"`")
		}
		b.WriteString(strings.Join(last, " ") + "\n\n")
	}
	text, path := strings.TrimRight(b.String(), "\n")+"\n", filepath.Join("..", "..", "docs", "commands.md")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return
	}
	have, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, text, string(have), "write it with go test ./internal/starter -run DocumentOfCommands -update")
}

// flags writes the table of flags, unless there are none.
func flags(b *strings.Builder, list []*kong.Flag) {
	head := "| flag | meaning |\n|---|---|\n"
	for _, f := range list {
		if f.Hidden || f.Name == "help" {
			continue
		}
		fmt.Fprintf(b, "%s| `%s` | %s |\n", head, cell(f.String()), cell(f.Help))
		head = ""
	}
	if head == "" {
		b.WriteString("\n")
	}
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

var (
	block   = regexp.MustCompile("(?s)```(\\w*)[^\n]*\n(.*?)```")
	inline  = regexp.MustCompile("`([^`\n]+)`")
	call    = regexp.MustCompile(`^(?:bin/starter|starter|spool) (.*)`)
	typed   = regexp.MustCompile(`^--?[a-zA-Z][a-z-]*`)
	command = regexp.MustCompile(`^[a-z-]*[a-z]$`)
)

// Each command and each flag that README and docs name, in blocks and in sentences, is
// one of the grammar. That the blocks work is shown by TestAll_TheBlocksOfDocumentsRun.
func TestDocumentsNameFlagsThatExist(t *testing.T) {
	root, found := model(t), 0
	paths, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	require.NoError(t, err)
	for _, path := range append(paths, filepath.Join("..", "..", "README.md")) {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		var lines []string
		for _, m := range block.FindAllStringSubmatch(string(raw), -1) {
			if m[1] == "sh" {
				lines = append(lines, strings.Split(m[2], "\n")...)
			}
		}
		for _, m := range inline.FindAllStringSubmatch(block.ReplaceAllString(string(raw), ""), -1) {
			lines = append(lines, m[1])
		}
		for _, line := range lines {
			m := call.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			found++
			at, flags := root, append([]*kong.Flag{}, root.Flags...)
			code, _, _ := strings.Cut(m[1], " #")
			for _, word := range strings.Fields(code) {
				if name := typed.FindString(word); name != "" {
					known := false
					for _, f := range flags {
						known = known || name == "--"+f.Name || name == "-"+string(f.Short)
					}
					assert.True(t, known, "%s: %s: there is no %s", filepath.Base(path), line, name)
				}
				for _, c := range at.Children {
					if c.Name == word {
						at, flags = c, append(flags, c.Flags...)
						break
					}
				}
			}
			word, _, _ := strings.Cut(code, " ")
			assert.False(t, at == root && command.MatchString(word), "%s: %s: there is no command %s", filepath.Base(path), line, word)
		}
	}
	assert.Greater(t, found, 50)
}
