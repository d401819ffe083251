package browser

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// A provider that asks for a pause: the page says so in place of "working", also after
// it was loaded anew, and in the block of a sub-agent; then it is gone.
func TestAll_APauseIsShown(t *testing.T) {
	s := tt.New(t)
	s.StartWorker()
	p := Open(t, s.StartWeb().Link, 1300, 850)
	p.Say("script: fail 429 x1 after 12s say recovered")
	const told = "waiting for the provider until"
	p.Text(".wait", told)
	p.Text(".wait", "attempt 2")
	p.Gone(".working")
	// Above the chat, too, wherever the person is, with a countdown.
	p.See("/attempt 2, in \\d+ s$/.test(document.querySelector('[data-health=wait] span:nth-child(2)')?.innerText)")
	left := Eval[string](p, "document.querySelector('[data-health=wait]').innerText")
	p.See(fmt.Sprintf("document.querySelector('[data-health=wait]')?.innerText !== %q", left))
	p.Go(Eval[string](p, "location.href"))
	p.Text(".wait", told)
	p.Text("article.assistant", "recovered")
	p.Gone(".wait")
	p.Gone("[data-health=wait]")
	p.Go(Eval[string](p, "location.href"))
	p.Text("article.assistant", "recovered")
	require.Equal(t, 0, p.Count(".wait"), "it is over")

	p.Say(script.Script(script.Call("assign_task", map[string]any{"agent": "researcher", "task": "script: fail 429 x1 after 12s say seen"}), "say all"))
	p.Text(".task-block .wait", told)
	require.Equal(t, 1, p.Count(".wait"), "once")
	p.Press("[data-health=wait]", "✕")
	p.Gone("[data-health=wait]")
	p.Click(".task-block")
	p.Text("aside .wait", told)
	p.Text("article.assistant:last-of-type", "all")
	p.Gone(".wait")
	s.Verify()
}
