package browser

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// words is a text of n different words.
func words(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("w%d", i)
	}
	return strings.Join(list, " ")
}

// The inspector shows a child at work while worker and web server are killed; what is
// seen in the end is the whole thread, once.
func TestRow102_InspectorThroughKills(t *testing.T) {
	s := tt.New(t)
	worker := s.StartWorker()
	web := s.StartWeb()
	p := Open(t, web.Link, 1300, 850)
	grandchild := script.Call("assign_task", map[string]any{"agent": "researcher", "task": "script: slow 20ms say " + words(30)})
	child := script.Script(script.Call("ls", map[string]any{"path": "."}), "slow 40ms "+grandchild, "slow 100ms say "+words(60))
	p.Say(script.Script(script.Call("assign_task", map[string]any{"agent": "general", "task": child}), "say the end"))
	p.Click(".task-block")
	p.Text("aside h2", "General")
	p.Text("aside .call summary", "ls")
	p.Text("aside .crumbs", "Chat")
	p.Text("aside article.stream", "w3")
	worker.Kill()
	web.Kill()
	s.StartWorker()
	p.Text(".live", "reconnecting")
	web.Restart()
	p.Text(".live", "live")
	p.Text("aside .tasks", "Researcher")
	p.Text("aside article", "w59")
	p.Text("aside .bar", "Completed")
	p.Text("article.assistant", "the end")
	// Everything once, in the order of the thread.
	v, err := s.Client.Show(s.Ctx(), Eval[string](p, "document.querySelector('aside').dataset.thread"), false)
	require.NoError(t, err)
	var want []string
	for _, m := range v.Messages {
		if m.Role != "tool" && m.Role != "system" && m.Content.String() != "" {
			want = append(want, m.ID)
		}
		for _, c := range m.ToolCalls {
			want = append(want, c.Function.Name)
		}
	}
	require.Equal(t, want, Eval[[]string](p, "[...document.querySelectorAll('aside article, aside .call')].map(e => e.dataset.message ?? e.querySelector('summary b')?.innerText ?? 'assign_task')"))
	require.Equal(t, 1, strings.Count(Eval[string](p, `[...document.querySelectorAll("aside .entry.assistant")].map(e => e.innerText).join("\n")`), "w59"))
	require.Equal(t, 2, p.Count("aside .call"))
	// Inputs and outputs unfold; nothing can be written.
	p.Click("aside .call summary")
	p.Text("aside .output", "path")
	require.Equal(t, 0, p.Count("aside textarea")+p.Count("aside input"))
	// Down to the grandchild, and the way back by the crumbs.
	p.Press("aside .call", "Researcher")
	p.Text("aside h2", "Researcher")
	p.Text("aside article", "w29")
	require.Equal(t, "Chat,General,Researcher", Eval[string](p, "[...document.querySelectorAll('aside .crumbs li')].map(e => e.innerText.trim()).join()"))
	p.Press("aside .crumbs", "General")
	p.Text("aside h2", "General")
	p.Click(`aside button[aria-label="Close the inspector"]`)
	p.Gone("aside")
	// From the sidebar, too.
	p.Click(".sidebar .twist[aria-expanded]")
	p.Press(".sidebar a.task", "Researcher")
	p.Text("aside h2", "Researcher")
	// The trace marks where the worker was lost, and that another one went on.
	p.Press(".end", "Trace")
	p.Text(".trace .lost-sum", "1 worker lost, another went on")
	p.Text(".trace .span.lost", "Worker lost")
	p.Press(".trace .span.agent", "Agent: General")
	p.Press(".span-inside", "Open the agent")
	p.Text("aside h2", "General")
	// The server refuses what the page does not offer.
	status := Eval[int](p, `fetch("/api/v1/messages", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify({threadId: document.querySelector("aside").dataset.thread, content: "do this"})}).then(r => r.status)`)
	require.GreaterOrEqual(t, status, 400)
	require.Less(t, status, 500)
	s.Verify()
}

// The trace of a turn is one waterfall of it and its sub-agents: a span opens what was
// sent and what came. It grows by what the stream tells, without being asked for.
func TestAll_Trace(t *testing.T) {
	s := tt.New(t)
	s.StartWorker()
	p := Open(t, s.StartWeb().Link, 1300, 850)
	child := script.Script(script.Call("shell", map[string]any{"command": "echo hello"}), "say x")
	p.Say(script.Script(script.Call("calculator", map[string]any{"expression": "6*7"})+" && "+script.Call("assign_task", map[string]any{"agent": "researcher", "task": child}), "say y"))
	p.Press(".end", "Trace")
	p.Text(".trace .spans", "Agent: Researcher")
	kinds := "[...document.querySelectorAll('.trace .span')].map(e => e.dataset.depth + ' ' + e.classList[1])"
	require.Equal(t, []string{"0 model", "0 tool", "0 agent", "1 model", "1 tool", "1 model", "0 model"}, Eval[[]string](p, kinds))
	require.Greater(t, p.Count(".axis .track span"), 2)
	p.Click(".span.model .open-span")
	p.Text(".span-inside", "Came")
	p.Press(".span-inside summary", "system prompt")
	p.Text(".span-inside", "<env>")
	p.Click(".span.tool .open-span")
	p.Text(".span-inside", "6*7")
	p.Text(".span-inside", "42")
	asked := len(p.Asked())
	Eval[bool](p, "new Promise((ok) => setTimeout(() => ok(true), 1500))")
	require.Len(t, p.Asked(), asked, "nothing is asked while nothing happens")
	p.Press(".span.agent", "Agent: Researcher")
	p.Press(".span-inside", "Open the agent")
	p.Text("aside h2", "Researcher")
	p.Key(kb.Escape)
	p.Gone("aside")
}

// What a model writes is text: it runs nothing, loads nothing and breaks nothing.
func TestHostileText(t *testing.T) {
	s := tt.New(t)
	s.StartWorker()
	p := Open(t, s.StartWeb().Link, 1300, 850)
	hostile := strings.Join([]string{
		"<script>window.hacked = 1</script>", "<img src=x onerror='window.hacked = 1'>", "![seen](https://evil.example/pixel.png)", "[click](javascript:window.hacked=1)", "<svg/onload=window.hacked=1>",
		"<style>*{display:none}</style>", "<iframe src='https://evil.example'></iframe>", "<form action='https://evil.example'><input></form>", strings.Repeat("W", 3000), "|" + strings.Repeat("a|", 300) + "\\n|" + strings.Repeat("-|", 300), "\u202egnp.exe \u200b", "# </article></main><h1>x",
	}, "\\n\\n")
	p.Say(script.Script(script.Call("assign_task", map[string]any{"agent": "researcher", "task": "script: say " + strings.ReplaceAll(hostile, "\\", "\\\\")}), "say "+hostile+"\\n\\nthe end"))
	p.Text("article.assistant", "the end")
	p.Click(".task-block")
	p.Text("aside article", "window.hacked")
	require.False(t, Eval[bool](p, "Boolean(window.hacked)"))
	require.Zero(t, p.Count(".markdown :is(script, style, iframe, form, input, svg, img, object, embed, link, meta, base)"))
	require.Zero(t, p.Count(`a[href^="javascript"]`))
	require.LessOrEqual(t, Eval[int](p, "document.documentElement.scrollWidth"), 1300)
	require.True(t, Eval[bool](p, "document.querySelector('#text').getBoundingClientRect().bottom <= innerHeight"))
	for _, url := range p.Asked() {
		require.NotContains(t, url, "evil.example")
	}
	s.Verify()
}

// Each user sees what is theirs.
func TestTwoUsers(t *testing.T) {
	s := tt.New(t)
	s.StartWorker()
	web := s.StartWeb()
	p := Open(t, web.Link, 1300, 850)
	p.Say("script: say mine alone")
	p.Text("article.assistant", "mine alone")
	thread := p.Thread()
	other := s.StartWeb("SPOOL_USER=other", "SPOOL_WEB_TOKEN=the-token-of-the-other")
	q := Open(t, other.Link, 1300, 850)
	q.Text(".who", "other")
	q.Text(".sidebar", "No conversation yet")
	q.Go(other.URL + "/?thread=" + thread)
	q.Text("main", "does not exist")
	q.Press(".sidebar", "New conversation")
	q.Say("script: say hello")
	q.Text("article.assistant", "hello")
	time.Sleep(300 * time.Millisecond) // what would be told is told by now
	require.Equal(t, 1, p.Count(".sidebar a.chat"))
}

// A token that is made while the server runs lets its user in.
func TestAll_ATokenMadeLater(t *testing.T) {
	s := tt.New(t)
	web := s.StartWeb()
	cmd := exec.Command(tt.Starter(), "web-token", "carol")
	cmd.Env = append(os.Environ(), s.Env...)
	token, err := cmd.Output()
	require.NoError(t, err)
	p := Open(t, web.URL, 1300, 850)
	p.Type("input[type=password]", strings.TrimSpace(string(token)))
	p.Press("form", "Log in")
	p.Text(".who", "carol")
}

// Many sub-agents hide neither other conversations nor the tasks of their turn.
func TestAll_ManySubAgents(t *testing.T) {
	s := tt.New(t)
	s.StartWorker()
	p := Open(t, s.StartWeb().Link, 1300, 850)
	p.Say("script: say a quiet one")
	p.Text("article.assistant", "a quiet one")
	p.Press(".sidebar", "New conversation")
	calls := make([]string, 7)
	for i := range calls {
		calls[i] = script.Call("assign_task", map[string]any{"agent": "general", "task": "script: say ok"})
	}
	p.Say("script: repeat 14 " + strings.Join(calls, " && ") + " ;; say all are back")
	p.Text("article.assistant", "all are back")
	p.Go(Eval[string](p, "location.href"))
	p.Text("article.assistant", "all are back")
	// The end of the turn, then all of it; what is done is folded.
	Eval[bool](p, "document.querySelector('.chat .log').scrollTop = 0, true")
	p.Text(".rollup", "98 agents · ")
	require.Less(t, p.Count(".task-block"), 20)
	p.Press(".rollup", "more agents")
	p.See("document.querySelectorAll('.task-block').length === 98")
	p.Press(".calls", "98 calls")
	p.See("document.querySelectorAll('.calls .into').length === 98")
	p.Text(".sidebar a.chat", "a quiet one")
	p.Click(".sidebar .twist[aria-expanded]")
	p.Text(".sidebar .tasks", "more tasks")
	require.Less(t, p.Count(".sidebar a.task"), 20)
	p.Press(".sidebar .tasks", "more tasks")
	p.See("document.querySelectorAll('.sidebar a.task').length >= 98")
	s.Verify()
}
