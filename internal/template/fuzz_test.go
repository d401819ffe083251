package template

import (
	"maps"
	"strings"
	"testing"

	"github.com/spool-agents/spool/agent"
)

// However front matter is saved, it says the same, or the file is refused.
func FuzzFrontMatter(f *testing.F) {
	for _, s := range []string{"name: x\ntools: file_read\napproval:\n  shell: deny\n", "", "tools: []", "disallowedTools: Write, Edit\n", "description: a: b\n", "approval: ask", "- a", "a: &x [*x]",
		"approval: {shell: deny, ls: auto}\n# c\n", "description: |\n  ---\n  tools: x\n", "tools:\n- Read\n- \"Bash(git *)\"\n", "maxSteps: 3\nmaxTurns: 4", "\tname: x", "name: x\n...\ntools: y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, front string) {
		text, err := agent.WrittenText([]byte(front))
		if err != nil {
			return
		}
		plain := "---\n" + string(text) + "\n---\nYou only read."
		want, _ := parse("x.md", plain, nil)
		for _, saved := range []string{"\ufeff" + plain, "\n \n" + plain, strings.ReplaceAll(plain, "\n", "\r\n"), strings.ReplaceAll(plain, "\n---\n", "\n--- \t\n")} {
			text, err := agent.WrittenText([]byte(saved))
			if err != nil {
				t.Fatal(err)
			}
			got, _ := parse("x.md", string(text), nil)
			if (got == nil) != (want == nil) || got != nil && (!maps.Equal(got.config.Approval, want.config.Approval) || strings.Join(got.config.Tools, ",") != strings.Join(want.config.Tools, ",") || got.config.MaxSteps != want.config.MaxSteps) {
				t.Fatalf("%q is %+v, but saved as %q it is %+v", plain, want, saved, got)
			}
		}
	})
}
