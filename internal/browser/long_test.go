package browser

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// long imports a session with n messages.
func long(t *testing.T, s *tt.Stack, session string, n int) {
	t.Helper()
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var list []message
	for i := range n / 2 {
		list = append(list, message{"user", fmt.Sprintf("question %d", i)}, message{"assistant", fmt.Sprintf("answer %d\n\n- with **a list**\n- and `code`", i)})
	}
	now := time.Now().UTC()
	raw, err := json.Marshal(map[string]any{"id": session, "messages": list, "workdir": s.Work, "startedAt": now, "lastActiveAt": now})
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "session_"+session[len(session)-8:]+".json"), raw, 0o600))
	cmd := exec.Command(tt.Starter(), "sessions", "import", dir)
	cmd.Env = append(os.Environ(), s.Env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

// A long thread opens at its end, without the rest, which comes when it is scrolled to.
func TestAll_TenThousandMessages(t *testing.T) {
	s := tt.New(t)
	s.StartWorker()
	long(t, s, "long-session", 10_000)
	p := Open(t, s.StartWeb().URL, 1300, 850)
	p.Type("input[type=password]", "wrong")
	p.Press("form", "Log in")
	p.Text("[role=alert]", "not known")
	Eval[bool](p, "document.querySelector('input').select(), true")
	p.Type("input[type=password]", tt.WebToken)
	p.Press("form", "Log in")
	p.Click(".sidebar a.chat")
	p.Text("article", "answer 4999")
	require.Equal(t, "long-session/default", p.Thread())
	first := p.Count("article")
	require.Less(t, first, 200)
	require.Greater(t, first, 20)
	p.See("(b => b.scrollHeight - b.scrollTop - b.clientHeight < 5)(document.querySelector('.chat .log'))")
	Eval[bool](p, "document.querySelector('.chat .log').scrollTop = 0, true")
	p.See(fmt.Sprintf("document.querySelectorAll('article').length > %d", first))
	// What a piece of a reply costs does not depend on what is loaded: it is drawn alone.
	p.See(`(() => {
		const log = document.querySelector(".chat .log");
		log.scrollTop = 0;
		log.dispatchEvent(new Event("scroll"));
		return document.querySelectorAll("article").length >= 2000;
	})()`)
	Eval[bool](p, `import(new URL("vendor/preact.js", document.querySelector("script[type=module]").src)).then(({ options }) => {
		const old = options.diffed;
		let drawn = 0;
		options.diffed = (node) => (drawn++, old(node));
		window.pieces = [];
		window.elsewhere = 0;
		new MutationObserver((all) => {
			const inStream = (n) => (n.nodeType === Node.ELEMENT_NODE ? n : n.parentElement)?.closest("article.stream");
			if (all.some((m) => inStream(m.target))) pieces.push({ drawn, elsewhere: all.filter((m) => m.target.isConnected && !inStream(m.target)).length });
			drawn = 0;
		}).observe(document.querySelector(".chat .log"), { subtree: true, childList: true, characterData: true, attributes: true });
		return true;
	})`)
	p.Say("script: slow 100ms say First **this** and\\n\\n- then that\\n- and `code`\\n\\n" + words(2000))
	p.See("pieces.length > 20")
	pieces := Eval[[]struct{ Drawn, Elsewhere int }](p, "pieces.slice(1)") // the first one begins the reply
	t.Logf("drawn for each piece of a reply, with %d messages loaded: %v", p.Count("article"), pieces)
	middle := slices.SortedFunc(slices.Values(pieces), func(a, b struct{ Drawn, Elsewhere int }) int { return a.Drawn - b.Drawn })[len(pieces)/2]
	require.LessOrEqual(t, middle.Drawn, 20)
	require.Zero(t, middle.Elsewhere)
	p.Press(".composer", "Stop")
	p.Text(".end.cancelled", "cancel")
	s.Verify()
}
