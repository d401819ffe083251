package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/exit"
)

// sits runs chat at a terminal.
func (u *user) sits(cols int, args ...string) *Desk {
	u.t.Helper()
	d := Run(u.t, u.command(append([]string{"chat"}, args...)...), cols, 30)
	d.Sees("/help")
	return d
}

// atBoth runs a test at a narrow and at a wide terminal, on the real stack.
func atBoth(t *testing.T, test func(t *testing.T, u *user, cols int)) {
	for _, cols := range []int{80, 200} {
		t.Run(fmt.Sprint(cols), func(t *testing.T) {
			t.Parallel()
			u := newUser(t)
			u.dev()
			test(t, u, cols)
		})
	}
}

// asked are the messages of people in a thread.
func (u *user) asked(thread string) (texts []string) {
	u.t.Helper()
	code, out, errout := u.run("show", "--json", thread)
	require.Equal(u.t, 0, code, errout)
	var doc struct {
		Messages []struct{ Role, Content string }
		Inbox    []struct{ Content, State string }
	}
	decode(u.t, out, &doc)
	for _, m := range doc.Messages {
		if m.Role == "user" {
			texts = append(texts, m.Content)
		}
	}
	for _, e := range doc.Inbox {
		if e.State == "waiting" {
			texts = append(texts, e.Content)
		}
	}
	return texts
}

const say = "script: say "

func TestALineIsEdited(t *testing.T) {
	atBoth(t, func(t *testing.T, u *user, cols int) {
		d := u.sits(cols, "-s", "s")
		d.Types("x wrong" + CtrlU + "say helo" + Left + "l" + Home + "script: ")
		d.SeesLine("> script: say hello")
		d.Types(CtrlE + " 世界" + Backspace + "！e\u0301")
		d.SeesLine("> script: say hello 世！e\u0301")
		d.Until("the cursor stands behind two wide characters", func([]string) bool {
			x, _, _ := d.Cursor()
			return x == len("> script: say hello ")+2+2+1
		})
		d.Types(AltEnter + "two" + CtrlJ + "three lost" + CtrlW + "words")
		d.SeesLine("  three words")
		d.Types(Enter)
		d.SeesLine("hello 世！e\u0301")
		assert.Equal(t, []string{"script: say hello 世！e\u0301\ntwo\nthree words"}, u.asked("s/default"))
		d.Types(CtrlD)
		d.Ends(exit.Done)
		d.Sees("chat -t s/default")
	})
}

func TestAll_WhatWasTypedComesBackInLaterSessions(t *testing.T) {
	atBoth(t, func(t *testing.T, u *user, cols int) {
		d := u.sits(cols)
		d.Types(say + "one" + AltEnter + "1" + Enter)
		d.SeesLine("one")
		d.Loses("Ctrl-C cancels")
		d.Types("cleared" + CtrlC)
		d.Sees("the arrow up brings it back")
		d.Types("a draft" + CtrlD)
		d.SeesLine("> a draft")
		d.Types(CtrlC + CtrlD)
		d.Ends(exit.Done)
		info, err := os.Stat(filepath.Join(u.home, "chat_history"))
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())

		d = u.sits(cols, "-s", "other")
		d.Types(Up)
		d.SeesLine("> a draft")
		d.Types(Up)
		d.SeesLine("> cleared")
		d.Types(Up)
		d.SeesLine("  1")
		d.Types(Down + Down + Down)
		d.SeesLine(">")
		d.Types(CtrlD)
		d.Ends(exit.Done)
		assert.NotContains(t, d.All(), "go on with", "nothing was sent")
	})
}

func TestAll_APasteIsText(t *testing.T) {
	atBoth(t, func(t *testing.T, u *user, cols int) {
		d := u.sits(cols, "-s", "s")
		d.Pastes("/quit\r\nlast \x1b[31mline")
		d.SeesLine("  last line")
		d.Types(Enter)
		d.Sees("demo model")
		long := strings.TrimSuffix(strings.Repeat("a\tline\n", 50), "\n")
		d.Pastes(long)
		d.SeesLine("> [paste 1: 50 lines]")
		d.Types(" end" + Enter)
		d.Until("both turns ended", func([]string) bool { return len(u.asked("s/default")) == 2 })
		assert.Equal(t, []string{"/quit\nlast line", long + " end"}, u.asked("s/default"))
	})
}

func TestAll_AnotherSizeIsFollowed(t *testing.T) {
	u := newUser(t)
	u.dev()
	d := u.sits(200, "-s", "s")
	text := strings.Repeat("word ", 30) + "end"
	d.Types(text)
	d.SeesLine("> " + text)
	d.Resize(80, 20)
	d.Until("the line is wrapped", func(lines []string) bool {
		for _, line := range lines {
			if line == "  end" {
				return true
			}
		}
		return false
	})
	d.Types(CtrlU + say + strings.Repeat("wrapped ", 30) + Enter)
	d.Until("the answer is wrapped", func(lines []string) bool {
		n := 0
		for _, line := range lines {
			if strings.HasPrefix(line, "wrapped ") {
				n++
			}
		}
		return n >= 3
	})
	d.Resize(200, 40)
	d.Types("still here")
	d.SeesLine("> still here")
}

const answer = `## Head\n\nsome **bold** and ` + "`code`" + `, [a link](https://example.org)\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n` +
	`&#27;[2Jx \x1b[31mred\u202e &#8238;y` + "\\n\\n```\\n\\x1b]0;title\\x07fmt.Println()\\n```"

func TestAll_AnswersAreMarkdownAndGiveNoOrders(t *testing.T) {
	atBoth(t, func(t *testing.T, u *user, cols int) {
		d := u.sits(cols, "-s", "s")
		text := strings.NewReplacer(`\x1b`, "\x1b", `\u202e`, "\u202e", `\x07`, "\x07").Replace(answer)
		u.send("s", say+text) // keys cannot hold it
		d.SeesLine("## Head")
		d.SeesLine("some bold and code, a link (https://example.org)")
		d.SeesLine("• two")
		d.SeesLine("│1│2│")
		d.SeesLine("    fmt.Println()")
		for _, line := range d.Lines() {
			assert.NotContains(t, line, "\u202e")
		}
		d.Until("colours", func([]string) bool { return d.Painted("code") && d.Painted("## Head") && !d.Painted("some bold") })
		d.Types(CtrlD)
		d.Ends(exit.Done)

		u.env = append(u.env, "NO_COLOR=1")
		d = u.sits(cols, "-s", "s")
		d.SeesLine("## Head")
		assert.False(t, d.Painted("## Head"))
		assert.False(t, d.Painted("code"))
	})
}

// While the model is silent a line says what is waited for; what is typed meanwhile is
// seen, and queued or steered.
func TestAll_ALineMovesWhileTheModelIsSilent(t *testing.T) {
	atBoth(t, func(t *testing.T, u *user, cols int) {
		d := u.sits(cols, "-s", "s")
		d.Types(`script: call calculator {"expression":"6*7"} ;; first 5s say late` + Enter)
		d.Sees("waits for the model")
		d.Sees(" · 1s · ")
		d.Sees(" tokens · Ctrl-C cancels")
		d.Types("half a thou")
		d.SeesLine("> half a thou")
		d.Types("ght" + CtrlU + say + "queued" + Enter)
		d.Sees("waits for its turn")
		d.Types("steered" + CtrlS)
		d.SeesLine("late")
		d.SeesLine("queued")
		d.Loses("waits for its turn")
		assert.ElementsMatch(t, []string{`script: call calculator {"expression":"6*7"} ;; first 5s say late`, "steered", "script: say queued"}, u.asked("s/default"))
		d.Types(CtrlD)
		d.Ends(exit.Done)
	})
}

func TestAll_SubAgentsAreATree(t *testing.T) {
	atBoth(t, func(t *testing.T, u *user, cols int) {
		d := u.sits(cols, "-s", "s")
		d.Types(`script: call assign_task {"agent":"general","task":"script: call assign_task {\"agent\":\"researcher\",\"task\":\"script: first 3s say deep\"} ;; say up"} ;; say all done` + Enter)
		d.Until("a tree", func(lines []string) bool {
			general, researcher := -1, -1
			for i, line := range lines {
				if strings.Contains(line, " general  assign_task(") {
					general = i
				}
				if strings.HasPrefix(line, "    ") && strings.Contains(line, " researcher  waits for the model · ") {
					researcher = i
				}
			}
			return general >= 0 && researcher == general+1
		})
		d.SeesLine("all done")
		d.Sees("✓ general")
		d.Types("/trace" + Enter)
		d.Sees(" (success): script: first 3s say deep")
		d.Sees("    researcher ")
		d.Types("/tasks" + Enter)
		d.Sees("STATUS   WHO")
		d.Sees("success  agent:general")
		d.Types("/sessions" + Enter)
		d.Sees("#  ID  STATUS  ")
		d.Sees("/sessions N goes there")
		cut := 0
		for _, line := range d.Lines() { // none runs on in the next one
			assert.False(t, strings.Contains(line, "agent:general:") && !strings.Contains(line, "http://"), line)
			if strings.HasSuffix(line, "…") {
				cut++
			}
		}
		assert.Equal(t, map[int]int{80: 3, 200: 0}[cols], cut, "the task in /trace and /tasks, the topic in /sessions")
		exact := strings.Repeat("x", cols-2) + "y" // as wide as lines are
		d.Types(say + exact + Enter)
		d.SeesLine(exact)
		out := Run(t, u.command("threads", "--all"), cols, 30)
		out.Ends(exit.Done)
		out.Sees("TOPIC")
		assert.NotContains(t, out.All(), "agent:general:", "short ids")
	})
}

func TestAll_ThePastIsShown(t *testing.T) {
	atBoth(t, func(t *testing.T, u *user, cols int) {
		u.send("s", `script: call calculator {"expression":"6*7"} ;; say it is **42**`)
		for _, args := range [][]string{{"-s", "s"}, {"--continue"}} {
			d := u.sits(cols, args...)
			d.Sees(`> script: call calculator`)
			d.SeesLine("→ calculator(expression=6*7)")
			d.SeesLine("it is 42")
			d.Types(CtrlD)
			d.Ends(exit.Done)
		}
	})
}
