package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/llm/script"
	"github.com/spool-agents/spool/internal/npmtest"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// violations are what axe finds against the rules of WCAG 2.2 AA.
func violations(p *Tab, axe string) []string {
	p.t.Helper()
	if !Eval[bool](p, "typeof axe === 'object'") {
		Eval[bool](p, axe+"\n;true")
	}
	type found struct {
		ID    string   `json:"id"`
		Help  string   `json:"help"`
		Nodes []string `json:"nodes"`
	}
	var out []string
	for _, v := range Eval[[]found](p, `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(r => r.violations.map(v => ({id: v.id, help: v.help, nodes: v.nodes.map(n => n.html.slice(0, 200) + " " + (n.any[0]?.message ?? ""))})))`) {
		out = append(out, fmt.Sprintf("%s: %s %q", v.ID, v.Help, v.Nodes))
	}
	return out
}

// The page fits windows of three widths, light and dark, and people who use it
// without eyes or mouse. SPOOL_TEST_PICTURES names a folder for pictures to look at.
func TestAll_WidthsAndAccessibility(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(npmtest.Install(t, os.DirFS("testdata/axe")), "node_modules", "axe-core", "axe.min.js"))
	require.NoError(t, err)
	axe := string(raw)
	s := tt.New(t)
	careful := "---\nname: general\ndescription: asks\napproval:\n  file_write: ask\n---\nAsk before you write."
	require.NoError(t, os.WriteFile(filepath.Join(s.Agents(), "general.md"), []byte(careful), 0o644))
	s.StartWorker()
	web := s.StartWeb("SPOOL_TEMPORAL_UI=http://127.0.0.1:1")
	login := Open(t, web.URL, 1300, 850)
	login.See("document.querySelector('input[type=password]')")
	require.Empty(t, violations(login, axe), "login")

	p := Open(t, web.Link, 1300, 850)
	p.See("document.querySelector('#text')")
	require.Empty(t, violations(p, axe), "empty")
	p.Say(script.Script(script.Call("ls", map[string]any{"path": "."}), script.Call("assign_task", map[string]any{"agent": "researcher", "task": "script: call ls {} ;; say seen **it**"}),
		"think about it => say # A heading\\n\\nText with `code`, a [link](https://spool.example/) and\\n\\n```go\\nfunc main() { println(\\\"hello\\\") }\\n```\\n\\n|a|b|\\n|-|-|\\n|1|2|\\n\\n> quoted\\n\\n- [x] done"))
	p.Text("article.assistant", "quoted")
	p.Say(script.Script(script.Call("assign_task", map[string]any{"agent": "general", "task": script.Script(script.Call("file_write", map[string]any{"path": "a.txt", "content": "x"}))})+" && "+script.Call("ask_user", map[string]any{"question": "Which colour?"}), "say done"))
	p.Text(".card h2", "asks to run file_write")
	p.Text(".card", "Which colour?")
	p.Click(".task-block")
	p.Text("aside article", "seen it")
	p.Click("aside .call summary")
	p.Press(".card", "Edit")
	p.See("document.querySelector('.card .fields')")
	for _, look := range []string{"light", "dark"} {
		p.Resize(1400, 844)
		p.Click(".who")
		p.Choose(".top-bar select", look)
		p.Click(".who")
		for _, width := range []int64{1920, 1280, 900, 390} {
			p.Resize(width, 844)
			for _, open := range []bool{true, false} {
				if !open {
					p.Key("\u001b")
					p.Gone("aside")
				}
				name := fmt.Sprintf("%s-%d-%v", look, width, open)
				require.LessOrEqual(t, Eval[int64](p, "document.documentElement.scrollWidth"), width, name)
				require.Empty(t, violations(p, axe), name)
				if dir := os.Getenv("SPOOL_TEST_PICTURES"); dir != "" {
					p.Shot(filepath.Join(dir, name+".png"))
				}
			}
			p.do(chromedp.NavigateBack())
			p.Text("aside article", "seen it")
		}
	}
	// On a phone the list is a drawer.
	p.Key("\u001b")
	p.Gone("aside")
	require.False(t, Eval[bool](p, "document.querySelector('.sidebar').checkVisibility()"))
	p.Click(".menu")
	require.True(t, Eval[bool](p, "document.querySelector('.sidebar').checkVisibility()"))
	require.Empty(t, violations(p, axe), "drawer")
	p.Click(".sidebar a.chat")
	p.See("!document.querySelector('.sidebar').checkVisibility()")
}

// A person without a mouse reaches and does everything.
func TestAll_Keyboard(t *testing.T) {
	s := tt.New(t)
	s.StartWorker()
	p := Open(t, s.StartWeb().Link, 1300, 850)
	p.Say(script.Script(script.Call("assign_task", map[string]any{"agent": "researcher", "task": "script: say seen"}), "say done"))
	p.Text("article.assistant", "done")
	reach := func(css string) {
		t.Helper()
		for range 60 {
			p.Key("\t")
			if Eval[bool](p, fmt.Sprintf("document.activeElement.matches(%q)", css)) {
				return
			}
		}
		t.Fatalf("the Tab key does not come to %s", css)
	}
	reach(".task-block")
	p.Key("\r")
	p.Text("aside h2", "Researcher")
	require.True(t, Eval[bool](p, "document.activeElement.matches('aside h2')"), "the focus goes along")
	p.Key("\u001b")
	p.Gone("aside")
	Eval[bool](p, "document.activeElement.blur(), true")
	p.Key("/")
	p.See("document.activeElement.id === 'text'")
	reach(".fork")
}
