package browser

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// Eight windows of one browser, which has six connections to a server, all show a text
// while it is written; so they do after a window that streamed is gone, and after the
// server was away. Nothing is lost or shown twice.
func TestAll_EightWindows(t *testing.T) {
	s := tt.New(t)
	s.StartWorker()
	web := s.StartWeb()
	first := Open(t, web.Link, 1000, 700)
	first.Say("script: say ready")
	first.Text("article.assistant", "ready")
	tabs := []*Tab{first}
	for range 7 {
		p := first.Beside(web.URL + "/?thread=" + first.Thread())
		p.Text("article.assistant", "ready")
		tabs = append(tabs, p)
	}
	streams := func() (n int) {
		for _, p := range tabs {
			n += p.Streams()
		}
		return n
	}
	turn := func(n int) {
		t.Helper()
		text, last := "", ""
		for i := range 40 {
			last = fmt.Sprintf("w%d-%d", n, i)
			text += last + " "
		}
		for _, p := range tabs {
			Eval[bool](p, fmt.Sprintf(`clearInterval(window.look), window.live = false, window.look = setInterval(() => {
				const text = document.querySelector("article.stream")?.innerText ?? "";
				window.live ||= document.visibilityState === "visible" && text.includes("w%d-0") && !text.includes(%q);
			}, 50), true`, n, last))
		}
		tabs[0].Say("script: slow 150ms say " + text)
		for i, p := range tabs {
			p.Text("article.assistant:not(.stream)", last)
			require.True(t, Eval[bool](p, "window.live"), "window %d saw it while it was written", i)
			require.Equal(t, 1, Eval[int](p, fmt.Sprintf("[...document.querySelectorAll('article.assistant')].map(e => e.innerText).join().split(%q).length - 1", last)), "window %d", i)
			require.Equal(t, n+1, p.Count("article.user"), "window %d", i)
		}
	}
	turn(1)
	require.LessOrEqual(t, streams(), 3, "the others poll")
	tabs[1].Close()
	tabs = append(tabs[:1], tabs[2:]...)
	turn(2)
	tt.Eventually(t, "a window has the place of the one that is gone", func() bool { return streams() == 3 })
	web.Restart()
	for _, p := range tabs {
		p.See("document.querySelector('.live.on')")
	}
	turn(3)
	s.Verify()
}

// Whom no model is configured for is told that a demo model answers, before and after
// it has; that no worker runs, until one does.
func TestAll_TheDemoModelIsNamed(t *testing.T) {
	s := tt.New(t)
	none := []string{"OPENAI_API_KEY=", "OPENAI_BASE_URL=", "SPOOL_DEMO_MODEL=true"}
	p := Open(t, s.StartWeb(none...).Link, 1000, 700)
	p.Text(".welcome .demo", "OPENAI_API_KEY")
	p.Text("[data-health=worker]", "No worker runs")
	s.StartWorker(none...)
	p.Gone("[data-health=worker]")
	p.Say("script: say a scripted answer")
	p.Text("article.assistant", "a scripted answer")
	p.Text(".chat > .demo", "in the worker's environment")
	p.Go(Eval[string](p, "location.href"))
	p.Text(".chat > .demo", "scripted demo model answers")
	p.Press(".chat > .demo", "✕")
	p.Gone(".demo")
}
