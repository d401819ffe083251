package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/exit"
)

func decode(t *testing.T, text string, to any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), to), text)
}

// send sends a message and waits for its end.
func (u *user) send(session, text string) {
	u.t.Helper()
	code, _, errout := u.run("send", "-s", session, text)
	require.Equal(u.t, 0, code, errout)
}

const decides = "then Enter"

// Only what is typed after a question stood there answers it: no paste, no key alone.
func TestApprovalsAreDecided(t *testing.T) {
	atBoth(t, func(t *testing.T, u *user, cols int) {
		d := u.sits(cols, "-s", "s")
		d.Types(`script: call shell {"command":"touch one"} && shell {"command":"touch two\u202e"} ;; say done` + Enter + "y" + Enter)
		d.Sees("orchestrator wants to run:")
		d.SeesLine(`    command: touch two\u202e`)
		d.Sees("[a] always: shell asks no more in this session; what must ask each time")
		d.Sees(decides)
		d.Pastes("y\r")
		d.Sees("a paste is no answer")
		d.Types("q")
		d.Sees(`"q" is no answer`)
		d.Types(Enter)
		d.Sees("choose first")
		d.Types("y2")
		d.Sees("1 yes · 2 left out")
		d.Types(Enter)
		d.SeesLine("done")
		assert.FileExists(t, filepath.Join(u.work, "one"))
		assert.NoFileExists(t, filepath.Join(u.work, "two\u202e"))

		d.Types(`script: call file_write {"path":"f.txt","content":"old line\nkept"} ;; call file_edit {"path":"f.txt","old":"old line\nkept","new":"new line\nkept"} ;; say changed` + Enter)
		d.SeesLine("    + old line")
		d.Sees(decides)
		d.Types("y" + Enter)
		d.SeesLine("    - old line")
		d.SeesLine("    + new line")
		d.Until("colours of a change", func([]string) bool { return d.Painted("- old line") && d.Painted("+ new line") })
		d.Sees(decides)
		d.Types("e" + Enter)
		d.Sees("what to tell the agent")
		d.Types("leave it" + Enter)
		d.SeesLine("changed")
		raw, err := os.ReadFile(filepath.Join(u.work, "f.txt"))
		require.NoError(t, err)
		assert.Equal(t, "old line\nkept", string(raw))

		d.Types(`script: call shell {"command":"touch four"} ;; call shell {"command":"touch five"} ;; say both touched` + Enter)
		d.Sees("[l] like: shell(touch *) asks no more in this session")
		d.Sees(decides)
		d.Types("l" + Enter)
		d.SeesLine("both touched")
		d.Types("/allowed" + Enter)
		d.Sees("1  shell(touch *)  for orchestrator (built in)")
		d.Types("/allowed revoke 1" + Enter)
		d.Sees("asks again: shell(touch *)")

		d.Types(`script: call shell {"command":"touch three"} ;; say never` + Enter)
		d.Sees(decides)
		d.Types("n" + Enter)
		d.Sees("you denied")
		d.Loses("Ctrl-C cancels")
		d.Types(CtrlD)
		d.Ends(exit.Done)
		assert.NoFileExists(t, filepath.Join(u.work, "three"))
	})
}

func TestQuestionsAreAnswered(t *testing.T) {
	atBoth(t, func(t *testing.T, u *user, cols int) {
		d := u.sits(cols, "-s", "s")
		d.Types("script: ask which colour? ;; echo you said" + Enter)
		d.Sees("orchestrator asks:")
		d.Sees(decides)
		d.Types(Esc)
		d.Sees("stays open")
		d.Loses(decides)
		d.Types("/asks" + Enter)
		d.Sees(decides)
		d.Pastes("dark\nblue")
		d.Types(Enter)
		d.Sees("you said")
		d.SeesLine("blue")

		for _, typed := range []string{"2", Down + Down, "dark", "green"} {
			d.Types(`script: call ask_user {"question":"Which?","options":["red","green","blue\u202e"]} ;; echo you took` + Enter)
			d.SeesLine(`  [3] blue\u202e`)
			d.Sees(decides)
			d.Types(typed)
			if typed == "dark" {
				d.SeesLine("  dark")
				d.Types(Esc)
				d.SeesLine("  [2] green")
				d.Types("2")
			}
			d.Until("green is chosen", func(lines []string) bool {
				return slices.ContainsFunc(lines, func(line string) bool { return line == "❯ [2] green" || line == "  green" })
			})
			d.Types(Enter)
			d.SeesLine("> green")
			d.Loses("Ctrl-C cancels")
		}
		_, out, _ := u.run("show", "s/default")
		assert.Len(t, regexp.MustCompile(`(?m)^ *green$`).FindAllString(out, -1), 8, "in the result and in the answer: %s", out)

		d.Types(`script: call ask_user {"question":"one?"} && ask_user {"question":"two?"} && ask_user {"question":"three?"} ;; say thanks` + Enter)
		for _, text := range []string{"first", "second", "third"} {
			d.Sees(decides)
			d.Types(text)
			d.SeesLine("  " + text)
			d.Types(Enter)
			d.Loses("  " + text)
		}
		d.SeesLine("thanks")
		d.Ordered("asks:\n  one?", "> first", "asks:\n  two?", "> second", "asks:\n  three?", "> third", "thanks")

		d.Types("script: ask again? ;; say never" + Enter)
		d.Sees("again?")
		d.Sees(decides)
		d.Types(CtrlC + CtrlC)
		d.Ends(exit.Waiting)
		d = u.sits(cols, "-s", "s")
		d.SeesLine("> green")
	})
}

func TestCommandsOfChat(t *testing.T) {
	atBoth(t, func(t *testing.T, u *user, cols int) {
		require.NoError(t, os.MkdirAll(filepath.Join(u.work, "docs"), 0o755))
		for _, name := range []string{"docs/alpha.md", "docs/alpine.md", ".hidden", "docs/my notes 1.md", "docs/my notes 2.md"} {
			require.NoError(t, os.WriteFile(filepath.Join(u.work, name), nil, 0o644))
		}
		d := u.sits(cols, "-s", "sure")
		d.Types("/he" + Tab + Enter)
		d.Sees("/export [DIR]")
		d.Types("/nothing" + Enter)
		d.Sees("/nothing is no command of chat, and nothing was sent")
		d.Types("/new hello" + Enter)
		d.Sees("/new takes nothing behind it, and nothing was done")
		d.Types("/age" + Tab)
		d.Sees("/agent  /agents")
		d.Types(CtrlU + "/agent res" + Tab + Enter)
		d.Sees("the agent from the next message on: researcher")
		d.Types("/model other" + Enter)
		d.Sees("the model from the next message on: other")
		d.Types("/agents" + Enter)
		d.Sees("researcher")
		d.Types("look at @do" + Tab + "al" + Tab)
		d.Sees("@docs/alpha.md  @docs/alpine.md")
		d.Types("h" + Tab)
		d.SeesLine("> look at @docs/alpha.md")
		d.Types("and @docs/my" + Tab + "2" + Tab)
		d.SeesLine("> look at @docs/alpha.md and @docs/my notes 2.md")
		d.Types(CtrlU + say + "first" + Enter)
		d.SeesLine("first")
		d.Sees("researcher")
		d.Loses("Ctrl-C cancels")
		d.Types("/cost" + Enter)
		d.Sees("sure: ")
		d.Sees("1 model requests")
		d.Types("/retry" + Enter)
		d.Sees("its answer replaces the one before")
		d.Types("/fork" + Enter)
		d.Sees("a copy of sure/default")
		d.Types("/new" + Enter)
		d.Sees("a new session")
		d.Types(say + "elsewhere" + Enter)
		d.SeesLine("elsewhere")
		d.Loses("Ctrl-C cancels")
		d.Types("/sessions" + Enter)
		d.Sees("/sessions N goes there")
		d.Types("/sessions su" + Enter)
		d.SeesLine("── sure/default")
		d.SeesLine("first")
		d.Types("/export out" + Enter)
		d.Sees(".json")
		assert.DirExists(t, filepath.Join(u.work, "out"))
		d.Types("/quit" + Enter)
		d.Ends(exit.Done)
		assert.Equal(t, []string{"script: say first"}, u.asked("sure/default"), "commands are not sent")
	})
}

func TestCtrlCCancelsAndTwiceLeaves(t *testing.T) {
	atBoth(t, func(t *testing.T, u *user, cols int) {
		d := u.sits(cols, "-s", "s")
		d.Types("script: slow 500ms say some " + strings.Repeat("words ", 100) + Enter)
		d.Until("the answer begins", func(lines []string) bool {
			return slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "some") })
		})
		d.Types(say + "queued" + Enter)
		d.Sees("waits for its turn")
		d.Types("my draft" + CtrlC)
		d.SeesLine("queued")
		d.SeesLine("> my draft")
		d.Loses("waits for the model")
		d.Ordered("(broken off)", "✗ cancelled", "cancelled; see:", " tokens\n", "> "+say+"queued", "queued", " tokens\n")
		d.Types(CtrlU + "/cost" + Enter)
		d.Sees(" model requests")
		used := regexp.MustCompile(`(\d+ tokens), \d+ model requests`).FindStringSubmatch(d.All())[1]
		d.Sees("/help · " + used)
		d.Types(CtrlU + "script: first 4s say it went on" + Enter)
		d.Sees("waits for the model")
		d.Types(CtrlC + CtrlC)
		d.Ends(exit.Interrupted)
		code, out, errout := u.run("show", "--follow", "s/default")
		require.Equal(t, 0, code, errout)
		assert.Contains(t, out, "it went on")
	})
}

// The worker and the chat die in the middle of a turn. What was sent is there once, and
// chat --continue shows it, and how it goes on.
func TestNothingIsLostWhenAllIsKilled(t *testing.T) {
	for _, cols := range []int{80, 200} {
		u := newUser(t)
		_, info, _ := u.dev()
		d := u.sits(cols, "-s", "s")
		text := `script: call calculator {"expression":"6*7"} ;; slow 200ms say one two three four five six seven eight nine ten`
		d.Types(text + Enter)
		d.Until("the answer streams", func(lines []string) bool {
			return slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "one two") })
		})
		d.Types(say + "behind it" + Enter)
		d.SeesLine("> " + say + "behind it")
		d.Sees("waits for its turn")
		d.Loses("is being stored")
		for _, pid := range info.PIDs.Workers {
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		}
		d.Kill()
		d = u.sits(cols, "--continue")
		d.Sees("> script: call calculator")
		d.Sees("one two three four five six seven eight nine ten")
		d.SeesLine("behind it")
		assert.Equal(t, []string{text, say + "behind it"}, u.asked("s/default"))
		d.Types(Up)
		d.SeesLine("> " + say + "behind it")
		d.Types(CtrlU + CtrlD)
		d.Ends(exit.Done)
	}
}

// Pipes, dumb terminals and screen readers get plain lines.
func TestPlainChat(t *testing.T) {
	u := newUser(t)
	u.dev()
	for _, term := range []string{"dumb", "xterm"} {
		cmd := u.command("chat", "-s", "s"+term)
		if term == "xterm" {
			cmd.Args = append(cmd.Args, "--plain")
		}
		d := RunAs(t, cmd, 80, 30, term)
		d.SeesLine(">")
		d.Types(say + "plain\n")
		d.SeesLine("plain")
		d.Types("/help\n")
		d.Sees("/quit, /exit")
		d.Types(CtrlD)
		d.Ends(exit.Done)
		assert.NotContains(t, d.All(), "──")
	}
	cmd := u.command("chat", "-s", "piped")
	cmd.Stdin = strings.NewReader(say + "piped\n")
	out, err := cmd.Output()
	require.NoError(t, err)
	assert.Equal(t, "piped\n", string(out))
	d := Run(t, u.command("chat", "-s", "piped", "--plain"), 80, 30)
	d.SeesLine("> script: say piped")
	d.SeesLine("piped")
	d.Types(CtrlD)
	d.Ends(exit.Done)

	// The exit code is the one that send has for the last message.
	for agent, input := range map[string]string{"nobody": say + "x\n", "": "script: call shell {\"command\":\"date\"}\n"} {
		args := []string{"-s", "codes" + agent}
		if agent != "" {
			args = append(args, "--agent", agent)
		}
		sent, _, _ := u.run(append(append([]string{"send"}, args...), strings.TrimSpace(input))...)
		args[1] += "-chat"
		cmd := u.command(append([]string{"chat"}, args...)...)
		cmd.Stdin = strings.NewReader(input)
		_, _ = cmd.Output() // the code says how it went
		assert.NotZero(t, sent)
		assert.Equal(t, sent, cmd.ProcessState.ExitCode(), args)
	}

	// The line after a question answers it; what a person has to approve ends the chat.
	pipe := func(code int, session, text string) (out, errout strings.Builder) {
		cmd := u.command("chat", "-s", session)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(text), &out, &errout
		_ = cmd.Run() // the code says how it went
		require.Equal(t, code, cmd.ProcessState.ExitCode(), errout.String())
		return out, errout
	}
	said, told := pipe(exit.Done, "asks", "script: ask which colour? ;; echo you said\nblue\n/allowed\n")
	assert.Contains(t, said.String(), "blue")
	assert.Contains(t, told.String(), "nothing is allowed for this session")
	_, _ = pipe(exit.Waiting, "asks", "script: ask again? ;; echo you said\n")
	_, told = pipe(exit.Waiting, "wants", `script: call shell {"command":"touch x"} ;; say done`+"\nnot this\n\nnor this\n")
	assert.Contains(t, told.String(), "2 lines not sent")
}
