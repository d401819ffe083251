package browser

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/httpapi"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// careful replaces the agent that asks nobody.
func careful(t *testing.T) *tt.Stack {
	t.Helper()
	s := tt.New(t)
	require.NoError(t, os.WriteFile(filepath.Join(s.Agents(), "orchestrator.md"), []byte("---\nname: orchestrator\n---\nYou ask first."), 0o600))
	s.StartWorker()
	return s
}

// A person sees all that they decide about: characters that hide, or turn the text
// around, and the end of a long argument.
func TestCardsHideNothing(t *testing.T) {
	s := careful(t)
	p := Open(t, s.StartWeb().Link, 1300, 850)
	long := strings.Repeat("a long line of text\n", 2500) + "the very end"
	p.Say(script.Script(script.Calls(
		script.Call("shell", map[string]any{"command": "echo \u202egnp.exe\u200b \u009bx"}), script.Call("file_write", map[string]any{"path": "a.txt", "content": long})), "say done"))
	p.Text(".card", "echo ⟨U+202E⟩gnp.exe⟨U+200B⟩ ⟨U+009B⟩x")
	require.NotContains(t, Eval[string](p, "document.querySelector('.card').innerText"), "\u202e")
	require.GreaterOrEqual(t, p.Count(".card mark.hides"), 6, "in the summary and in the arguments")
	p.Text(".card", "the very end")
	require.NotContains(t, Eval[string](p, "document.querySelector('.card').innerText"), "Show all")
	p.Press(".card", "Deny")
	p.Gone(".card")
	p.Text(".tool summary", "⟨U+202E⟩")

	// Calls like one are allowed for the session, others of the tool ask on.
	p.Say(script.Script(script.Call("shell", map[string]any{"command": "date"}), script.Call("shell", map[string]any{"command": "date +%Y"}), script.Call("shell", map[string]any{"command": "touch b"}), "say done"))
	p.Press(".card", "Ask no more for shell(date *)")
	p.Text(".card .command", "touch b")
	p.Press(".card", "Deny")
	p.Gone(".card")

	p.Say(script.Script(script.Call("ask_user", map[string]any{"question": "Remove \u2066b\u2069?"}), "say done"))
	p.Text(".card .question", "Remove ⟨U+2066⟩b⟨U+2069⟩?")
	s.Verify()
}

// A user other than the administrator gets no button that fails.
func TestAll_WhatWaitsForTheAdministrator(t *testing.T) {
	s := careful(t)
	token, err := httpapi.AppendToken(filepath.Join(s.Dir, "web-tokens"), "eve")
	require.NoError(t, err)
	p := Open(t, s.StartWeb("SPOOL_WEB_APPROVALS=ls,file_write").URL+"/?token="+token, 1300, 850)
	shell := script.Call("shell", map[string]any{"command": "touch ../../ran"})
	buttons := func() string {
		return Eval[string](p, "[...document.querySelectorAll('.card button:not([disabled])')].map(b => b.firstChild.textContent).join()")
	}
	p.Say(script.Script(shell, "say done"))
	p.Text(".card [role=note]", "shell waits for the administrator (tester)")
	p.Text(".card [role=note]", "--user eve")
	require.Equal(t, "Deny,Reply instead…", buttons())
	p.Press(".card", "Deny")
	p.Gone(".card")

	p.Say(script.Script(script.Calls(shell, script.Call("file_write", map[string]any{"path": "a.txt", "content": "x"})), "say done"))
	p.Text(".card [role=note]", "shell waits for the administrator")
	require.Equal(t, "Edit,Approve 1, deny the rest,Deny,Reply instead…", buttons())
	p.Press(".card", "Approve 1, deny the rest")
	p.Gone(".card")
	p.See("document.querySelectorAll('.end').length === 2")
	require.Equal(t, "x", s.File("web-users/eve/a.txt"))
	require.Equal(t, "", s.File("ran"))
	s.Verify()
}

// A link on a page of another site leaves the session as it is.
func TestAll_ALinkElsewhereReplacesNoSession(t *testing.T) {
	s := tt.New(t)
	token, err := httpapi.AppendToken(filepath.Join(s.Dir, "web-tokens"), "eve")
	require.NoError(t, err)
	web := s.StartWeb()
	p := Open(t, web.Link, 1300, 850)
	p.Text(".who", "tester")
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<title>elsewhere</title><link rel="icon" href="data:,"><a id="link" href="`+web.URL+"/?token="+token+`">win</a>`)
	}))
	t.Cleanup(elsewhere.Close)
	p.Go(strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1))
	p.Click("#link")
	p.Text(".who", "tester")
	require.Contains(t, Eval[string](p, "location.search"), "elsewhere")
	p.Click(".who")
	p.Press(".top-bar", "Log out")
	p.Text(".login", "Token of this server")
	p.Go(web.URL + "/?token=" + token)
	p.Text(".who", "eve")
}
