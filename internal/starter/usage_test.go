package starter

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/exit"
)

// quoted are the texts of an example.
var quoted = regexp.MustCompile("'[^']*'")

func TestVersionNamesTheBuild(t *testing.T) {
	b := newBench(t)
	for _, line := range []string{"version", "--version"} {
		r := b.run(line)
		assert.Equal(t, exit.Done, r.code, r.errout)
		assert.Regexp(t, `^spool \S+ \(.*go1\.`, r.out)
	}
	assert.Contains(t, b.run("version", "--json").json(t)["go"], "go1.")
}

// Each command has an example, which its grammar takes, and its help shows it; help
// COMMAND is that help, without the text of global flags.
func TestExamplesOfHelp(t *testing.T) {
	b := newBench(t)
	var cli grammar
	parser, err := kong.New(&cli, lists, kong.Bind(&app{}))
	require.NoError(t, err)
	for _, command := range leaves(parser.Model.Node) {
		help := b.run(append([]string{"help"}, strings.Fields(command)...)...)
		require.Equal(t, exit.Done, help.code, "%s: %s", command, help.errout)
		assert.Equal(t, b.run(append(strings.Fields(command), "--help")...).out, help.out)
		assert.NotContains(t, help.out, "--temporal-namespace=", command)
		for _, line := range strings.Split(help.out, "\n") {
			if example, ok := strings.CutPrefix(line, "Example: starter "); ok {
				require.True(t, strings.HasPrefix(example, command), line)
				words := strings.Fields(strings.NewReplacer("'", "", " >> ~/.bash_completion", "").Replace(quoted.ReplaceAllString(example, "text")))
				_, err := parser.Parse(words)
				assert.NoError(t, err, example)
			}
		}
	}
	assert.Contains(t, b.run("help", "send").out, "Example: starter send -s notes 'What is in this folder?'")
	assert.Contains(t, b.run("help").out, "--temporal-namespace=")
	assert.Equal(t, exit.Usage, b.run("help", "nothing").code)
}

func TestWordsThatAreCompleted(t *testing.T) {
	b := newBench(t)
	for line, want := range map[string]string{
		"thr": "threads", "sessions ex": "export expire", "show --la": "--last", "send --when-busy ": "queue steer reject",
		"threads --status wait": "waiting_for_user waiting_for_approval", "completion ": "bash zsh fish", "show --home ": "", "temporal-s": "",
	} {
		r := b.run(append([]string{"complete", "--"}, strings.Split(line, " ")...)...)
		assert.Equal(t, want, strings.Join(strings.Fields(r.out), " "), line)
	}
}

// A shell completes what the program says: here bash, with a program of this name.
func TestBashCompletes(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	said := b.run("complete", "--", "sessions", "ex").out
	require.NoError(t, os.WriteFile(filepath.Join(dir, "starter"), []byte("#!/bin/sh\n[ \"$*\" = 'complete -- sessions ex' ] && printf '"+strings.ReplaceAll(said, "\n", `\n`)+"'\n"), 0o700))
	script := b.run("completion", "bash").out + "COMP_WORDS=(starter sessions ex); COMP_CWORD=2; _spool; echo \"${COMPREPLY[@]}\"\ncomplete -p starter\n"
	c := exec.Command("bash", "-c", script)
	c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	out, err := c.CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Equal(t, "export expire\ncomplete -o default -F _spool starter\n", string(out))
	for _, shell := range []string{"zsh", "fish"} {
		assert.Contains(t, b.run("completion", shell).out, "complete -- ")
	}
}

// Wherever an id is taken, its beginning is enough if it is the only such one, and
// latest stands for the newest conversation.
func TestTheBeginningOfAnID(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.answered("alpha-1", "m1", "hello", "hi")
	b.answered("alpha-2", "m2", "hello", "hi")
	b.answered("beta-1", "m3", "do", "done")
	for _, line := range []string{"show ID", "show --follow ID", "tasks ID", "trace ID", "approvals ID", "questions ID", "sessions load ID", "sessions export ID --dir DIR", "fork ID"} {
		run := func(id string) result {
			return b.run(strings.Fields(strings.NewReplacer("ID", id, "DIR", filepath.Join(t.TempDir(), "d")).Replace(line))...)
		}
		many, none := run("alpha"), run("gamma")
		assert.Equal(t, exit.Done, run("be").code, line)
		assert.Equal(t, exit.Done, run("latest").code, line)
		assert.Contains(t, many.errout, "several ids begin with alpha: alpha-1, alpha-2. Give more", line)
		assert.Equal(t, exit.Usage, many.code, line)
		assert.Equal(t, exit.NotFound, none.code, line)
	}
	assert.Contains(t, b.run("show", "alpha-2").out, "alpha-2/default")
	b.send("parent", "m4", "do it")
	sub := b.below(b.take("parent/default"), false).ThreadID
	assert.Contains(t, b.run("show", sub[:len(sub)-4]).out, "thread   "+sub)
	id, err := agent.ParseThreadID(sub)
	require.NoError(t, err)
	digest := id.AgentID[strings.LastIndexByte(id.AgentID, '-')+1:]
	task := b.run("tasks", "parent", "--json").json(t)["tasks"].([]any)[0].(map[string]any)["id"].(string)
	for _, named := range []string{digest, digest[:8], id.AgentID, id.AgentID[:len(id.AgentID)-3], task, task[:12], "agent:general", sub[:len(sub)-13] + "…"} {
		assert.Contains(t, b.run("show", named).out, "thread   "+sub, named)
	}
	b.answered("01a226ed-da07-7e46-b70d-ad725f824ce5", "m5", "hello", "hi")
	require.Equal(t, exit.Done, b.run("fork", "01a2", "-c", "other-way", "--at", "1").code)
	for named, want := range map[string]string{"01a226ed-da07": "/default", "01a2/oth": "/other-way", "01a2/default": "/default"} {
		assert.Contains(t, b.run("show", named).out, "thread   01a226ed-da07-7e46-b70d-ad725f824ce5"+want+"\n")
	}
	assert.Contains(t, b.run("show", "01a2/x").errout, "there is no thread 01a226ed-da07-7e46-b70d-ad725f824ce5/x here")
	r := b.run("send", "--detach", "-t", "be", "more")
	assert.Contains(t, r.out+r.errout, "beta-1")
}

func TestListsAreFilteredAndCut(t *testing.T) {
	b := newBench(t)
	b.answered("done", "m1", "hello", "hi")
	b.send("open", "m2", "wait")
	b.take("open/default")
	for status, want := range map[string]string{"completed": "done/default", "running": "open/default"} {
		r := b.run("threads", "--status", status, "--json").json(t)
		assert.Equal(t, []string{want}, list(t, r, "threads", "id"))
	}
	assert.Contains(t, b.run("threads", "--status", "failed").errout, "no thread here is failed")
	assert.Equal(t, exit.Usage, b.run("threads", "--status", "asleep").code)
	r := b.run("show", "done", "--last", "1")
	assert.Contains(t, r.out, "#2 assistant")
	assert.NotContains(t, r.out, "#1 user")
	assert.Len(t, b.run("show", "done", "--last", "1", "--json").json(t)["messages"], 1)
	assert.Equal(t, exit.Usage, b.run("show", "done", "--last", "1", "--follow").code)
}

// What show prints before a message is what fork takes.
func TestForkTakesTheNumberThatShowPrints(t *testing.T) {
	b := newBench(t)
	b.answered("s1", "m1", "one", "two")
	b.answered("s1", "m2", "three", "four")
	for i, at := range []string{"2", "#2"} {
		name := fmt.Sprintf("copy%d", i)
		r := b.run("fork", "s1", "--at", at, "-c", name)
		require.Equal(t, exit.Done, r.code, r.errout)
		shown := b.run("show", "s1/"+name).out
		assert.Contains(t, shown, "two")
		assert.NotContains(t, shown, "three")
	}
	turn := b.run("show", "s1", "--json").json(t)["messages"].([]any)[0].(map[string]any)["turnId"].(string)
	require.Equal(t, exit.Done, b.run("fork", "s1", "--at", turn[:9], "-c", "turn").code)
	assert.NotContains(t, b.run("show", "s1/turn").out, "three")
	assert.Contains(t, b.run("fork", "s1", "--at", "t").errout, "several ids begin with t: t")
	assert.Equal(t, exit.NotFound, b.run("fork", "s1", "--at", "9").code)
	assert.Equal(t, exit.NotFound, b.run("fork", "s1", "--at", "nope").code)
}

// What stdin holds belongs to the message.
func TestStdinIsAppended(t *testing.T) {
	b := newBench(t)
	b.feed("line 1\nline 2\n", "send", "--detach", "-s", "s1", "--message-id", "m1", "sum this up")
	b.feed("", "send", "--detach", "-s", "s1", "--message-id", "m2", "alone")
	inbox, err := b.store.Inbox(t.Context(), "s1/default")
	require.NoError(t, err)
	require.Len(t, inbox, 2)
	assert.Equal(t, "sum this up\n\nline 1\nline 2", inbox[0].Content.String())
	assert.Equal(t, "alone", inbox[1].Content.String())
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// What has no end is refused before it fills the memory.
func TestWhatHasNoEndIsRefused(t *testing.T) {
	b := newBench(t)
	for _, args := range [][]string{{"send", "--schema", "/dev/zero", "hi"}, {"send", "-"}, {"send", "hi"}, {"answer", "q", "-"}, {"edit", "c", "-"}} {
		var out, errout strings.Builder
		assert.Equal(t, exit.Usage, Run(t.Context(), args, b.env(), zeros{}, &out, &errout), "%v", args)
		assert.Contains(t, errout.String(), "more than 16 MB", "%v", args)
	}
}

// A pipe that somebody left open does not keep a message from being sent.
func TestAnOpenPipeIsNotWaitedFor(t *testing.T) {
	b := newBench(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	var out, errout strings.Builder
	code := Run(t.Context(), []string{"send", "--detach", "-s", "s1", "hello"}, b.env(), r, &out, &errout)
	assert.Equal(t, exit.Unavailable, code, "stored, and Temporal is not there")
	assert.Contains(t, errout.String(), "stdin is open and says nothing")
}

func TestANewStoreIsAnnounced(t *testing.T) {
	b := newBench(t)
	path := "sqlite:" + filepath.Join(b.home, "mistyped.db")
	assert.Contains(t, b.run("send", "--detach", "--store", path, "hi").errout, "made a new store: "+path+" (from flag --store)")
	assert.NotContains(t, b.run("send", "--detach", "--store", path, "hi").errout, "made a new store")
}

// Tools work where dev was started; who sends from elsewhere is told.
func TestTheFolderOfToolsIsNamed(t *testing.T) {
	b := newBench(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	b.more = []string{"TEMPORAL_ADDRESS=" + l.Addr().String()}
	here, err := os.Getwd()
	require.NoError(t, err)
	for workspace, told := range map[string]bool{t.TempDir(): true, filepath.Dir(here): false} {
		info := config.DevInfo{Temporal: l.Addr().String(), Home: b.home, Workspace: workspace, PIDs: config.DevPIDs{Workers: []int{os.Getpid()}}}
		require.NoError(t, config.WriteDev(b.home, info))
		r := b.run("send", "--detach", "hi")
		assert.Equal(t, told, strings.Contains(r.errout, "tools work in "+workspace+", where dev was started"), r.errout)
	}
}

func TestTheDemoFlagIsForAWorkerHere(t *testing.T) {
	b := newBench(t)
	r := b.run("send", "--demo-model", "hi")
	assert.Equal(t, exit.Usage, r.code)
	assert.Contains(t, r.errout, "--demo-model changes nothing here")
}
