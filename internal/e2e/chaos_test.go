package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/llm/script"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
	"github.com/spool-agents/spool/memory/archive"
	"github.com/spool-agents/spool/memory/sessionfile"
)

// People talk, and everything under them is killed, stopped, cut off and deployed anew,
// as one seed draws it. At the end an oracle that knows only what people typed reads the
// tables, and counts what tools did outside Spool. SPOOL_SEED=N draws the same again,
// SPOOL_FAULTS=N as many faults.
func TestChaos(t *testing.T) {
	t.Parallel()
	chaos(t, 3)
}

// chaos is a run with at least so many faults.
func chaos(t *testing.T, faults int) {
	switch {
	case tt.Long():
		faults = 100
	case tt.All():
		faults = 12
	}
	if v := os.Getenv("SPOOL_FAULTS"); v != "" {
		n, err := strconv.Atoi(v)
		require.NoError(t, err)
		faults = n
	}
	seed := uint64(tt.Seed(t))
	server := tt.StartServer(t)
	s := tt.NewOn(t, server)
	template(t, s, "careful", "", "You ask before you write.")
	c := &trouble{t: t, s: s, server: server, rng: rand.New(rand.NewPCG(seed, 1)), next: nextBuild(t), disk: smallDisk(t, s), done: map[string]int{}}
	if tt.Long() {
		c.clocks = clockBuild(t)
	}
	if strings.HasPrefix(s.StoreSpec(), "postgres") {
		c.way = newLink(t, s.StoreSpec())
	}
	c.start()
	c.start()
	p := &people{t: t, s: s, enough: make(chan struct{})}
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() { p.talk(i, rand.New(rand.NewPCG(seed, uint64(2+i)))) })
	}
	deciding, stop := context.WithCancel(s.Ctx())
	var desk sync.WaitGroup
	desk.Go(func() { p.decide(deciding, rand.New(rand.NewPCG(seed, 99))) })
	for range faults {
		c.fault()
	}
	close(p.enough)
	all.Wait()
	stop()
	desk.Wait()
	t.Logf("%d messages in 3 conversations; faults: %v", len(p.said), c.done)
	check(t, s, p, c.done)
}

// utterance is a message that was accepted, and what has to become of it.
type utterance struct {
	id, text  string
	want      string // the answer that its script ends with; empty if any may come
	thread    string
	cancelled bool // a person asked for its cancel
	steered   bool // it entered the turn of another message
	deleted   bool // its conversation was deleted
}

// people type, decide, cancel, fork, move and delete.
type people struct {
	t      *testing.T
	s      *tt.Stack
	enough chan struct{} // closed when no more messages are wanted
	mu     sync.Mutex
	said   []*utterance
	tags   int
}

// tag names one effect outside Spool.
func (p *people) tag() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tags++
	return fmt.Sprintf("t%dt", p.tags)
}

// mark is a call with an effect outside Spool, which must not come twice.
func (p *people) mark(seconds float64) string {
	return script.Call("shell", map[string]any{"command": fmt.Sprintf("echo %s >> effects; sleep %g", p.tag(), seconds)})
}

// plan draws a turn, and the answer that it ends with.
func (p *people) plan(rng *rand.Rand) (text, want string) {
	want = "end " + p.tag()
	last := "slow 20ms say " + want
	pause := rng.Float64()
	switch rng.IntN(8) {
	case 0:
		return script.Script("slow 50ms say " + strings.Repeat("word ", 20) + want), strings.Repeat("word ", 20) + want
	case 1:
		return script.Script(script.Calls(p.mark(0), p.mark(pause), add(1, 2)), p.mark(pause), last), want
	case 2: // a provider that fails, breaks off and is slow
		return script.Script("fail 500 x2 "+p.mark(0), "break x1 first 500ms "+p.mark(0), "break x1 "+last), want
	case 3:
		child := script.Script(p.mark(pause), script.Task("general", script.Script(p.mark(0), "say grandchild")), "slow 20ms say child")
		return script.Script(script.Calls(script.Task("general", child), p.mark(0)), last), want
	case 4:
		child := script.Script("first 300ms "+p.mark(pause), "say child")
		return script.Script(background("general", child), p.mark(0), taskOutput("", 5*time.Minute), last), want
	case 5: // a person is asked below
		return script.Script(script.Task("careful", script.Script(p.mark(pause), "say child")), last), want
	case 6:
		return script.Script("ask Which way?", p.mark(pause), last), want
	default:
		return script.Script(p.mark(0), p.mark(0), p.mark(0), last), want
	}
}

// talk is one person in one session.
func (p *people) talk(n int, rng *rand.Rand) {
	session, thread := p.s.Session(fmt.Sprint("talk", n)), ""
	for i := 0; ; i++ {
		select {
		case <-p.enough:
			return
		default:
		}
		text, want := p.plan(rng)
		m := memory.SendRequest{UserID: "tester", SessionID: session, MessageID: fmt.Sprintf("%d-%d", n, i), Content: agent.Text(text), WhenBusy: memory.Queue}
		if thread != "" {
			m.ThreadID, m.SessionID = thread, ""
		}
		r, one := p.send(m, want)
		switch rng.IntN(6) {
		case 0:
			time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
			one.cancelled = true
			p.until("cancel", func() error {
				_, err := p.s.Client.Cancel(p.s.Ctx(), memory.CancelRequest{ThreadID: r.ThreadID, TurnID: r.TurnID, By: "tester"})
				if agent.CodeOf(err) == agent.CodeConflict {
					return nil // the turn had ended
				}
				return err
			})
		case 1:
			time.Sleep(time.Duration(rng.IntN(1000)) * time.Millisecond)
			m.MessageID, m.Content, m.WhenBusy = m.MessageID+"s", agent.Text("and this "+p.tag()), memory.Steer
			one.want = "" // what the script makes of it depends on where it came in
			_, one = p.send(m, "")
			one.steered = true
		}
		p.s.Wait(r)
		quiet(p.t, p.s, r.ThreadID)
		switch rng.IntN(8) {
		case 0:
			p.until("fork", func() error {
				f, err := p.s.Client.Fork(p.s.Ctx(), spool.ForkRequest{ThreadID: r.ThreadID})
				thread = f.ThreadID
				return err
			})
		case 1:
			p.move(session)
		case 2:
			p.remove(session)
			thread = ""
		}
	}
}

var tester = archive.Owner{UserID: "tester"}

// move takes a session out of the store and into it again.
func (p *people) move(session string) {
	folder := sessionfile.Folder{Dir: p.t.TempDir()}
	p.until("export", func() error {
		_, err := archive.Export(p.s.Ctx(), p.s.Store, folder, tester, session, sessionfile.EventOptions{Enabled: true})
		return err
	})
	p.delete(session)
	p.until("import", func() error {
		in, err := archive.Import(p.s.Ctx(), p.s.Store, folder, tester, session)
		if err == nil && len(in.Refused) > 0 {
			err = fmt.Errorf("refused: %v", in.Refused)
		}
		return err
	})
}

func (p *people) delete(session string) {
	p.until("delete", func() error {
		_, err := archive.Delete(p.s.Ctx(), p.s.Store, tester, session)
		return err
	})
}

// remove deletes a session for good.
func (p *people) remove(session string) {
	p.delete(session)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.said {
		m.deleted = m.deleted || strings.HasPrefix(m.thread, session+"/")
	}
}

// send sends until the message is accepted: its id makes repeating harmless.
func (p *people) send(m memory.SendRequest, want string) (r spool.Reply, one *utterance) {
	p.until("send", func() (err error) { r, err = p.s.Client.Send(p.s.Ctx(), m); return err })
	one = &utterance{id: m.MessageID, text: m.Content.String(), want: want, thread: r.ThreadID}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, one)
	return r, one
}

// until repeats what a person asks for while a part is away.
func (p *people) until(what string, ask func() error) {
	var err error
	tt.Eventually(p.t, what, func() bool {
		err = ask()
		return err == nil || agent.CodeOf(err) != agent.CodeUnavailable
	})
	if err != nil {
		p.t.Errorf("%s: %v", what, err)
	}
}

// decide answers what waits for people, until ctx ends.
func (p *people) decide(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
		open, _ := p.s.Store.Approvals(ctx, memory.ApprovalFilter{OpenOnly: true})
		for _, a := range open {
			verdict := memory.Approve
			if rng.IntN(3) == 0 {
				verdict = memory.Deny
			}
			_, _ = p.s.Client.Decide(ctx, memory.Decision{By: "tester", Target: a.ID, Verdict: verdict})
		}
		asked, _ := p.s.Store.Questions(ctx, memory.QuestionFilter{OpenOnly: true})
		for _, q := range asked {
			_, _ = p.s.Client.Answer(ctx, memory.AnswerRequest{By: "tester", Target: q.ID, Text: "this way"})
		}
	}
}

// trouble draws what happens to the processes under the conversations.
type trouble struct {
	t       *testing.T
	s       *tt.Stack
	server  *tt.Server
	rng     *rand.Rand
	next    string // another build of the worker
	clocks  string // a build whose clock jumps; in the long form
	disk    string // home of half of the workers, on a disk of their own; "" where none can be mounted
	way     *link  // of half of the workers to the store, on PostgreSQL
	workers []*tt.Process
	done    map[string]int
}

// start starts a worker of one of two builds; every second one has its store behind
// the link, and its files on the small disk.
func (c *trouble) start() {
	var env []string
	if len(c.s.Workers)%2 == 0 {
		if c.way != nil {
			env = append(env, "SPOOL_STORE="+c.way.url)
		}
		if c.disk != "" {
			env = append(env, "SPOOL_HOME="+c.disk, "TMPDIR="+c.disk)
		}
	}
	if c.rng.IntN(2) == 0 {
		c.workers = append(c.workers, c.s.SpawnFrom(c.next, env...))
	} else {
		c.workers = append(c.workers, c.s.StartWorker(env...))
	}
}

// drop takes a worker out of the list.
func (c *trouble) drop() *tt.Process {
	w := c.workers[0]
	c.workers = c.workers[1:]
	return w
}

func (c *trouble) pause(most time.Duration) { time.Sleep(time.Duration(c.rng.Int64N(int64(most)))) }

// fault waits a while and lets one thing go wrong, for a while.
func (c *trouble) fault() {
	c.pause(2 * time.Second)
	kinds := []func() string{
		func() string { c.drop().Kill(); c.start(); return "worker killed" },
		func() string { c.drop().Kill(); c.start(); return "worker killed" },
		func() string {
			c.drop().Kill()
			c.drop().Kill()
			c.start()
			c.start()
			c.done["worker killed"]++
			return "worker killed"
		},
		func() string {
			w := c.workers[0]
			w.Signal(syscall.SIGSTOP)
			c.pause(7 * time.Second) // longer than the heartbeat timeout
			w.Signal(syscall.SIGCONT)
			return "worker stopped"
		},
		func() string {
			c.start()
			w := c.drop()
			w.Signal(syscall.SIGTERM)
			return "worker deployed"
		},
		func() string { c.server.Kill(); c.pause(time.Second); c.server.Restart(c.t); return "Temporal killed" },
		func() string {
			c.server.Signal(syscall.SIGSTOP)
			c.pause(4 * time.Second)
			c.server.Signal(syscall.SIGCONT)
			return "Temporal stopped"
		},
		func() string { // each is killed as it comes up, or begins to work
			for range 4 + c.rng.IntN(8) {
				c.pause(700 * time.Millisecond)
				c.drop().Kill()
				c.start()
				c.done["worker killed"]++
			}
			return "workers killed in a row"
		},
		func() string {
			hold(c.t, c.s, time.Duration(c.rng.Int64N(int64(4*time.Second))))
			return "store locked"
		},
	}
	if c.way != nil {
		cut := func(name string, state linkState) func() string {
			return func() string {
				c.way.set(state)
				c.pause(8 * time.Second)
				c.way.set(linkWhole)
				return name
			}
		}
		kinds = append(kinds, cut("store refused", linkRefused), cut("store silent", linkSilent))
	}
	if c.disk != "" {
		kinds = append(kinds, func() string {
			fill := filepath.Join(c.disk, "fill")
			require.ErrorIs(c.t, os.WriteFile(fill, make([]byte, diskSize), 0o600), syscall.ENOSPC)
			c.pause(8 * time.Second)
			require.NoError(c.t, os.Remove(fill))
			return "disk full"
		})
	}
	if c.clocks != "" {
		kinds = append(kinds, func() string {
			off := []string{"1h", "-1h", "90s", "-90s"}[c.rng.IntN(4)]
			c.workers = append(c.workers, c.s.SpawnFrom(c.clocks, "SPOOL_TEST_JUMP="+off))
			c.drop().Signal(syscall.SIGTERM)
			c.pause(8 * time.Second)
			return "clock jumped"
		})
	}
	c.done[kinds[c.rng.IntN(len(kinds))]()]++
}

// check is the oracle: it knows what was typed, decided and done to the processes.
func check(t *testing.T, s *tt.Stack, p *people, faults map[string]int) {
	t.Helper()
	roots := map[string]bool{}
	for _, m := range p.said {
		if !m.deleted {
			roots[m.thread] = true
		}
	}
	for root := range roots {
		quiet(t, s, root)
	}
	db := openRaw(t, s)
	rows := func(query string, columns int) (out [][]string) {
		t.Helper()
		r, err := db.QueryContext(t.Context(), query)
		require.NoError(t, err)
		defer r.Close()
		for r.Next() {
			row, into := make([]string, columns), make([]any, columns)
			for i := range row {
				into[i] = &row[i]
			}
			require.NoError(t, r.Scan(into...))
			out = append(out, row)
		}
		require.NoError(t, r.Err())
		return out
	}

	// Every message that was accepted is there once, with one answer that is the one
	// its script ends with, unless a person wanted something else.
	messages := map[string]int{} // of users, by thread and what was typed
	for _, row := range rows(`SELECT thread_id, body FROM messages`, 2) {
		var m agent.Message
		require.NoError(t, json.Unmarshal([]byte(row[1]), &m))
		if m.Role == agent.RoleUser {
			messages[row[0]+" "+m.Content.String()]++
		}
	}
	turns := map[string][]string{}
	for _, row := range rows(`SELECT thread_id, message_id, state, outcome, answer, reason FROM turns WHERE delegator_thread = ''`, 6) {
		key := row[0] + " " + row[1]
		require.NotContains(t, turns, key, "one turn for a message")
		turns[key] = row[2:]
	}
	ends := map[string]int{}
	for _, m := range p.said {
		key := m.thread + " " + m.id
		if m.deleted {
			require.Zero(t, messages[m.thread+" "+m.text], "deleted message %s", key)
			continue
		}
		require.Equal(t, 1, messages[m.thread+" "+m.text], "message %s", key)
		turn := turns[key]
		if m.steered && len(turn) == 0 {
			continue
		}
		require.Len(t, turn, 4, "message %s has a turn", key)
		require.Equal(t, "closed", turn[0], "turn of %s", key)
		ends[turn[1]]++
		switch {
		case turn[1] == "completed" && m.want == "":
		case turn[1] == "completed":
			require.Equal(t, m.want, turn[2], "answer to %s", key)
		case turn[1] == "cancelled" && m.cancelled:
		default:
			t.Errorf("turn of %s: %s (%s)", key, turn[1], turn[3])
		}
	}

	// What a tool did outside Spool happened at most once, and once where the store
	// says so; nothing that was denied happened.
	effects := map[string]int{}
	for line := range strings.Lines(s.File("effects")) {
		effects[strings.TrimSpace(line)]++
	}
	statuses, unknown := map[string]int{}, 0
	for _, row := range rows(`SELECT args, status FROM tool_calls WHERE name = 'shell'`, 2) {
		_, tag, _ := strings.Cut(row[0], "echo ")
		tag, _, _ = strings.Cut(tag, " ")
		n := effects[tag]
		statuses[row[1]]++
		switch {
		case n > 1:
			t.Errorf("%s happened %d times", tag, n)
		case row[1] == "success" && n != 1:
			t.Errorf("%s is told as a success and happened %d times", tag, n)
		case row[1] == "denied" && n != 0:
			t.Errorf("%s was denied and happened", tag)
		}
		if row[1] == "unknown" {
			unknown++
		}
	}
	t.Logf("ends of turns: %v; calls of tools: %v, outcome unknown: %d; effects: %d", ends, statuses, unknown, len(effects))
	if faults["worker killed"]+faults["worker stopped"]+faults["store silent"]+faults["store refused"] == 0 {
		require.Zero(t, unknown, "no worker was lost, so each outcome is known")
	}

	// Nothing is left at work.
	require.Empty(t, rows(`SELECT id FROM turns WHERE state = 'open'`, 1))
	require.Empty(t, rows(`SELECT id FROM asks WHERE outcome = ''`, 1))
	require.Empty(t, rows(`SELECT id FROM tasks WHERE status IN ('pending', 'running', 'waiting')`, 1))
	for _, row := range rows(`SELECT id FROM threads`, 1) {
		tt.Eventually(t, "the run of "+row[0]+" has ended", func() bool {
			open, err := s.Client.OpenRun(s.Ctx(), row[0])
			return err == nil && !open
		})
	}
	s.Verify()
}

// nextBuild is a worker with other commands and a larger schema.
func nextBuild(t *testing.T) string {
	t.Helper()
	edits := append([]edit{}, changedBuild...)
	for _, dialect := range []string{"memory/sqlite", "memory/postgres"} {
		there, err := filepath.Glob(filepath.Join(tt.Root(), dialect, "schema", "*.sql"))
		require.NoError(t, err)
		file := fmt.Sprintf("%s/schema/%03d_deployed.sql", dialect, len(there)+1)
		edits = append(edits, edit{File: file, New: "-- expands\nALTER TABLE threads ADD COLUMN deployed TEXT NOT NULL DEFAULT '';\n"})
	}
	return buildVariant(t, "next", edits...)
}

// diskSize is the size of a disk that is to be filled.
const diskSize = 1 << 20

// smallDisk is a worker's home on a disk of its own; "" where none may be mounted.
func smallDisk(t *testing.T, s *tt.Stack) string {
	t.Helper()
	home := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprint("size=", diskSize), "spool", home).CombinedOutput(); err != nil {
		t.Logf("no disk is filled, for none can be mounted: %v %s", err, out)
		return ""
	}
	t.Cleanup(func() { assert.NoError(t, exec.Command("umount", "-l", home).Run()) })
	require.NoError(t, os.CopyFS(filepath.Join(home, "agents"), os.DirFS(s.Agents())))
	return home
}

// clockBuild is a worker whose clock jumps by SPOOL_TEST_JUMP five seconds after its
// start. A program in Go asks no library for the time, so its own is changed; the first
// build of it takes minutes.
func clockBuild(t *testing.T) string {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	src := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	return buildVariant(t, "clock", edit{
		File: filepath.Join(src, "time.go"),
		Old:  "	sec, nsec, mono := runtimeNow()\n	if mono == 0 {\n		return Time{uint64(nsec), sec + unixToInternal, Local}\n",
		New:  "	sec, nsec, mono := runtimeNow()\n	if mono-startNano > 5e9 {\n		sec += jump\n	}\n	if mono == 0 {\n		return Time{uint64(nsec), sec + unixToInternal, Local}\n",
	}, edit{
		File: filepath.Join(src, "jump.go"),
		New: "package time\n\nimport \"syscall\"\n\nvar jump = func() int64 {\n	by, _ := syscall.Getenv(\"SPOOL_TEST_JUMP\")\n" +
			"	d, _ := ParseDuration(by)\n	return int64(d / Second)\n}()\n",
	})
}
