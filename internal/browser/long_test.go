package browser

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
func TestTenThousandMessages(t *testing.T) {
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
	p.Say("script: say still quick")
	p.Text("article.assistant", "still quick")
	s.Verify()
}
