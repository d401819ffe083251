package starter

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/internal/terminal"
	"github.com/spool-agents/spool/memory"
)

var update = flag.Bool("update", false, "write golden files")

func TestHelpIsAsDocumented(t *testing.T) {
	for _, command := range []string{"", "dev", "demo", "web", "web-token", "codec-server", "send", "chat", "retry", "cancel", "fork", "approvals", "approve", "deny", "edit", "questions", "answer",
		"threads", "show", "trace", "tasks", "verify", "history", "sessions", "sessions export", "sessions import", "sessions expire", "agents", "tools", "models", "trust", "doctor", "mcp", "version", "help", "completion"} {
		t.Run("help "+command, func(t *testing.T) {
			var out, errout strings.Builder
			args := append(strings.Fields(command), "--help")
			require.Equal(t, exit.Done, Run(t.Context(), args, nil, strings.NewReader(""), &out, &errout))
			require.Empty(t, errout.String())
			golden := filepath.Join("testdata", "help", "help-"+command+".txt")
			if *update {
				require.NoError(t, os.MkdirAll(filepath.Dir(golden), 0o755))
				require.NoError(t, os.WriteFile(golden, []byte(out.String()), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err, "write it with go test ./internal/starter -run Help -update")
			assert.Equal(t, string(want), out.String())
		})
	}
}

func TestUsageErrorsNameTheFlagAndTheFix(t *testing.T) {
	for line, want := range map[string][]string{
		"":                                     {"give a command", "send", "doctor"},
		"sendd x":                              {"unexpected argument sendd", `did you mean "send"`},
		"fork a:b":                             {`thread id "a:b"`},
		"fork -c a/b a/b":                      {"--conversation", "A-Z"},
		"send":                                 {"message is empty", "or - to read it from stdin"},
		"send a b":                             {"unexpected argument b", "quotes"},
		"send --session= x":                    {"--session is empty", "leave the flag out"},
		"chat --thread=":                       {"--thread is empty"},
		"send --bogus x":                       {"unknown flag --bogus"},
		"send --when-busy later x":             {"--when-busy", "later", "queue, steer or reject"},
		"send --detach --wait x":               {"--detach", "--wait", "one of the two"},
		"send --detach --follow x":             {"--detach", "--follow", "one of the two"},
		"send -s a -t b/c x":                   {"--thread replaces --session"},
		"send --continue -s a x":               {"--continue", "leave out --session"},
		"send -s a/b x":                        {"--session", "a/b", "A-Z"},
		"send -c .. x":                         {"--conversation"},
		"send -t non:sense x":                  {"--thread", "SESSION/CONVERSATION or agent:TYPE:ID"},
		"send --agent No! x":                   {"--agent", "a-z"},
		"chat -s a -t b/c":                     {"--thread replaces --session"},
		"chat --json":                          {"send --json"},
		"retry --detach --wait a/b":            {"one of the two"},
		"retry a:b":                            {`thread id "a:b"`},
		"cancel a:b":                           {`thread id "a:b"`},
		"approvals a:b":                        {`thread id "a:b"`},
		"approve":                              {"<approval>"},
		"edit c":                               {"<text>"},
		"show":                                 {"give a thread id", "agent:TYPE:ID"},
		"show a:b":                             {"SESSION/CONVERSATION"},
		"show --from 3 a/b":                    {"--from", "add --follow"},
		"show --follow --from 3:1 a/b":         {"--from", "SEQ:ATTEMPT:OFFSET"},
		"trace a:b":                            {`thread id "a:b"`},
		"tasks ..":                             {"session", "A-Z"},
		"threads --limit 0":                    {"--limit 0", "from 1"},
		"threads -s a/b":                       {"--session"},
		"verify":                               {"thread id", "--all"},
		"verify --all a/b":                     {"leave out"},
		"verify --all --print":                 {"--print"},
		"history --all --run r a/b":            {"--run", "--all"},
		"history --dir d a/b":                  {"add --all"},
		"doctor --only worker,nothing":         {`--only "nothing"`, "store, temporal, workers, worker"},
		"history a:b":                          {`thread id "a:b"`},
		"send --bo\x1b[31mgus x":               {`unknown flag --bo\x1b[31mgus`},
		"dev --workers=-1":                     {"--workers -1", "0 to 64"},
		"dev --workers two":                    {"--workers", "two"},
		"dev --temporal-port 70000":            {"--temporal-port 70000", "0 for a free one"},
		"dev --ui-port=-2":                     {"--ui-port -2"},
		"web --web-port 70000":                 {"--web-port 70000", "0 for a free one"},
		"web --host example.com":               {"--host", "127.0.0.1 or 0.0.0.0"},
		"web-token a/b":                        {`user "a/b"`, "128 characters"},
		"dev --temporal nowhere":               {"--temporal", "embedded, path or HOST:PORT"},
		"threads --store postgres":             {"store", "postgres", "sqlite:PATH", "flag --store"},
		"threads --store memory:":              {"gone with it", "sqlite:PATH or file:DIR"},
		"cancel --temporal-address nohost a/b": {"temporalAddress", "HOST:PORT", "flag --temporal-address"},
	} {
		t.Run(line, func(t *testing.T) {
			home := filepath.Join(t.TempDir(), "home")
			var out, errout strings.Builder
			env := []string{"SPOOL_HOME=" + home, "SPOOL_USER=u", "TEMPORAL_ADDRESS=127.0.0.1:1"}
			code := Run(t.Context(), strings.Fields(line), env, strings.NewReader(""), &out, &errout)
			assert.Equal(t, exit.Usage, code, errout.String())
			for _, w := range want {
				assert.Contains(t, errout.String(), w)
			}
			if !strings.Contains(line, "--json") {
				assert.Empty(t, out.String())
				code = Run(t.Context(), append([]string{"--json"}, strings.Fields(line)...), env, strings.NewReader(""), &out, &errout)
				assert.Equal(t, exit.Usage, code)
			}
			var doc struct {
				Error struct{ Code, Message string }
			}
			require.NoError(t, json.Unmarshal([]byte(out.String()), &doc), out.String())
			assert.Equal(t, "invalid", doc.Error.Code)
			assert.Contains(t, errout.String(), terminal.Visible(strings.Split(doc.Error.Message, "\n")[0]))
			assert.NotContains(t, errout.String()+out.String(), "\x1b")
			assert.NoFileExists(t, filepath.Join(home, "spool.db"), "nothing happens before the arguments are right")
		})
	}
}

func TestSendWithoutTemporalStoresTheMessage(t *testing.T) {
	b := newBench(t)
	r := b.run("send", "--json", "-s", "s1", "--message-id", "m1", "hello")
	assert.Equal(t, exit.Unavailable, r.code)
	doc := r.json(t)
	assert.Equal(t, "stored", doc["status"])
	assert.Equal(t, "s1/default", doc["threadId"])
	assert.Equal(t, "s1", doc["sessionId"])
	assert.Equal(t, "default", doc["conversationId"])
	assert.Equal(t, "m1", doc["messageId"])
	assert.NotEmpty(t, doc["turnId"])
	assert.Contains(t, doc, "response")
	assert.Contains(t, doc, "usage")
	assert.Contains(t, r.errout, "repeating it with the same id is safe")

	again := b.run("send", "--json", "-s", "s1", "--message-id", "m1", "hello")
	assert.Equal(t, exit.Unavailable, again.code)
	assert.Equal(t, doc["turnId"], again.json(t)["turnId"])
	inbox, err := b.store.Inbox(t.Context(), "s1/default")
	require.NoError(t, err)
	assert.Len(t, inbox, 1)

	other := b.run("send", "--json", "-s", "s1", "--message-id", "m1", "something else")
	assert.Equal(t, exit.Conflict, other.code)
	assert.Equal(t, "conflict", other.json(t)["error"].(map[string]any)["code"])
}

func TestSendReadsStdinAndStartsASession(t *testing.T) {
	b := newBench(t)
	r := b.feed("line one\nline two\n", "send", "--detach", "-")
	assert.Equal(t, exit.Unavailable, r.code)
	assert.Contains(t, r.errout, "go on with: starter send -s ")
	list := b.run("threads", "--json").json(t)["threads"].([]any)
	require.Len(t, list, 1)
	id := list[0].(map[string]any)["id"].(string)
	assert.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-`, id, "a UUIDv7")
	inbox, err := b.store.Inbox(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, "line one\nline two", inbox[0].Content.String())

	assert.Equal(t, exit.Usage, b.feed("\n", "send", "-").code)
	assert.Equal(t, exit.Usage, b.run("send", "\xff").code)
}

func TestRepeatedSendReturnsTheAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.answered("s1", "m1", "hello", "hi \x1b[31mthere")
	r := b.run("send", "--json", "-s", "s1", "--message-id", "m1", "hello")
	assert.Equal(t, exit.Done, r.code, r.errout)
	assert.Equal(t, "completed", r.json(t)["status"])
	assert.Equal(t, "hi \x1b[31mthere", r.json(t)["response"], "JSON holds what was said")
	r = b.run("send", "-s", "s1", "--message-id", "m1", "hello")
	assert.Equal(t, exit.Done, r.code)
	assert.Equal(t, "hi there\n", r.out, "a terminal gets no escape sequence")
}

func TestSendOfAFailedTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.send("s1", "m1", "hello")
	turn := b.take("s1/default")
	b.stream(turn, 1, "half an ans")
	b.finish(turn, 1, "failed")
	r := b.run("send", "--json", "-s", "s1", "--message-id", "m1", "hello")
	assert.Equal(t, exit.Failed, r.code)
	doc := r.json(t)
	assert.Equal(t, "failed", doc["status"])
	assert.Equal(t, "error", doc["reason"])
	assert.Equal(t, "bad_request", doc["errorCode"])
	assert.NotContains(t, r.errout, "\x1b")
}

func TestApprovals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ap, turn := b.asking("s1")

	r := b.run("send", "--json", "-s", "s1", "--message-id", "m1", "write")
	assert.Equal(t, exit.Waiting, r.code, r.errout)
	doc := r.json(t)
	assert.Equal(t, "waiting_for_approval", doc["status"])
	pending := doc["pending"].([]any)[0].(map[string]any)
	assert.Equal(t, ap.ID, pending["approvalId"])

	r = b.run("send", "--json", "-s", "s1", "what now?")
	assert.Equal(t, exit.Conflict, r.code, "a plain message is no decision")
	assert.Contains(t, r.errout, "--when-busy queue")
	assert.Equal(t, ap.ID, r.json(t)["error"].(map[string]any)["pending"].([]any)[0].(map[string]any)["approvalId"])

	list := b.run("approvals", "--json").json(t)["approvals"].([]any)
	require.Len(t, list, 1)
	shown := list[0].(map[string]any)
	assert.Equal(t, turn.ThreadID, shown["threadId"])
	assert.Equal(t, "orchestrator", shown["agent"])
	calls := shown["toolCalls"].([]any)
	require.Len(t, calls, 2)
	assert.Equal(t, "shell", calls[0].(map[string]any)["toolName"])
	assert.Equal(t, "\x1b[2Jrm", calls[0].(map[string]any)["args"].(map[string]any)["command"])
	text := b.run("approvals", "s1/default")
	assert.Contains(t, text.out, `  command: \x1b[2Jrm`)
	assert.NotContains(t, text.out, "\x1b")

	assert.Equal(t, exit.NotFound, b.run("approve", "nothing").code)
	assert.Equal(t, exit.Usage, b.run("edit", ap.ID, "no").code, "an approval of two calls has no single call to edit")

	r = b.run("approve", "--json", ap.ToolCalls[0].ID)
	assert.Equal(t, exit.Unavailable, r.code, "saved, but nobody could be told")
	assert.Contains(t, r.errout, "the decision is saved")
	calls2, err := b.store.ToolCalls(t.Context(), turn.ThreadID)
	require.NoError(t, err)
	assert.Equal(t, []string{"pending", "denied"}, []string{string(calls2[0].Status), string(calls2[1].Status)}, "the other call of the approval is denied")

	assert.Equal(t, exit.Unavailable, b.run("approve", ap.ToolCalls[0].ID).code, "the same decision again returns the first outcome")
	r = b.run("deny", ap.ID)
	assert.Equal(t, exit.Conflict, r.code)
	assert.Contains(t, r.errout, owner, "says who decided")
}

func TestShowAndFollow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	root, child := b.delegated("s1")
	doc := b.run("show", "--json", "--events", root).json(t)
	for _, key := range []string{"thread", "messages", "inbox", "events", "tasks", "toolCalls"} {
		assert.Contains(t, doc, key)
	}
	assert.NotContains(t, doc, "pending")
	assert.Len(t, doc["messages"], 5)
	assert.Len(t, doc["toolCalls"], 2)

	sub := b.run("show", "--json", child).json(t)
	assert.Equal(t, child, sub["messages"].([]any)[0].(map[string]any)["subAgentId"])

	r := b.run("show", "--json", "--follow", root)
	assert.Equal(t, exit.Done, r.code)
	var cursors []string
	for _, line := range strings.Split(strings.TrimSpace(r.out), "\n") {
		var u struct {
			ThreadID, Cursor string
			Event            *struct{ Seq int64 }
		}
		require.NoError(t, json.Unmarshal([]byte(line), &u))
		assert.Equal(t, root, u.ThreadID)
		cursors = append(cursors, u.Cursor)
	}
	assert.Len(t, cursors, len(doc["events"].([]any)))
	rest := b.run("show", "--json", "--follow", "--from", cursors[4], root)
	assert.Equal(t, strings.Join(strings.SplitAfter(r.out, "\n")[5:], ""), rest.out)

	text := b.run("show", root)
	assert.Contains(t, text.out, "there is one file")
	assert.Contains(t, text.out, "ls(path=.)")
	assert.Contains(t, text.out, "http://ui/namespaces/default/workflows/s1%2Fdefault")

	assert.Equal(t, exit.NotFound, b.run("show", "nobody/default").code)
	assert.Equal(t, exit.NotFound, b.run("show", "--user", "somebody", root).code, "another user's thread")
}

func TestShowNamesAReplyThatIsBeingWorkedOn(t *testing.T) {
	b := newBench(t)
	b.send("s1", "m1", "go")
	turn := b.take("s1/default")
	b.reply(turn, 1, "let me see", "auto", newCalls("ls", "glob")...)
	b.send("s1", "m2", "next")
	doc := b.run("show", "--json", "s1/default").json(t)
	pending := doc["pending"].(map[string]any)
	assert.Equal(t, turn.ID+".1", pending["id"])
	assert.Equal(t, "let me see", pending["content"])
	assert.Len(t, pending["tool_calls"], 2)
	assert.Len(t, doc["inbox"], 1)
	assert.Contains(t, b.run("show", "s1/default").out, "\n\nassistant (being worked on)\n  let me see\n", "it has no number yet")
}

func TestShowAndTraceSayWhyTheLastTurnEnded(t *testing.T) {
	b := newBench(t)
	root := b.answered("s1", "m1", "hello", "well met")
	for _, command := range []string{"show", "trace"} {
		assert.NotContains(t, b.run(command, "--json", root).json(t), "error", command)
	}
	end := func(outcome agent.ThreadStatus, id, code, text string) {
		b.send("s1", id, "go on")
		turn := b.take(root)
		_, err := b.store.CloseTurn(t.Context(), memory.CloseRequest{ThreadID: root, TurnID: turn.ID, Step: 1, Outcome: outcome,
			Reason: agent.ReasonError, Code: code, Message: text})
		require.NoError(t, err)
	}
	long := "the model \x1b[31mrefused\n" + strings.Repeat("because ", 40) + "so"
	end(agent.ThreadFailed, "m2", "bad_request", long)
	for _, command := range []string{"show", "trace"} {
		assert.Equal(t, map[string]any{"code": "bad_request", "message": long}, b.run(command, "--json", root).json(t)["error"], command)
	}
	assert.Contains(t, b.run("show", root).out, "\nerror    bad_request: the model refused\n         "+strings.Repeat("because ", 40)+"so\n")
	assert.Regexp(t, `(?m)^  ✗ bad_request: the model refused because .* so$`, b.run("trace", root).out)

	end(agent.ThreadCancelled, "m3", "cancelled", "cancelled")
	assert.Contains(t, b.run("show", root).out, "\nerror    cancelled\n")
	assert.Contains(t, b.run("trace", root).out, "\n  ✗ cancelled\n")

	b.answered("s1", "m4", "again", "now it works")
	assert.NotContains(t, b.run("show", root).out, "error    ")
	assert.NotContains(t, b.run("trace", root).out, "✗")
}

func TestTraceGoesDownAndUp(t *testing.T) {
	b := newBench(t)
	root, child := b.delegated("s1")
	doc := b.run("trace", "--json", root).json(t)
	assert.Equal(t, root, doc["thread"].(map[string]any)["id"])
	below := doc["children"].([]any)
	require.Len(t, below, 1)
	node := below[0].(map[string]any)
	assert.Equal(t, child, node["thread"].(map[string]any)["id"])
	assert.Equal(t, "success", node["link"].(map[string]any)["callStatus"])
	assert.Equal(t, "success", node["link"].(map[string]any)["taskStatus"])
	assert.Equal(t, []any{}, node["children"])

	up := b.run("trace", "--json", child).json(t)["up"].([]any)
	require.Len(t, up, 1)
	assert.Equal(t, root, up[0].(map[string]any)["threadId"])
	text := b.run("trace", root).out
	assert.Contains(t, text, "http://ui/namespaces/default/workflows/s1%2Fdefault")
	assert.Contains(t, text, "\n  "+child+"  completed")
}

func TestThreadsShowSubAgentsOnlyIfAsked(t *testing.T) {
	b := newBench(t)
	root, child := b.delegated("s1")
	ids := func(args ...string) (out []string) {
		for _, x := range b.run(append([]string{"threads", "--json"}, args...)...).json(t)["threads"].([]any) {
			out = append(out, x.(map[string]any)["id"].(string))
		}
		return out
	}
	assert.Equal(t, []string{root}, ids())
	assert.ElementsMatch(t, []string{root, child}, ids("--all"))
	assert.Equal(t, []string{root}, ids("-s", "s1"))
	assert.Empty(t, ids("-s", "s2"))
	assert.Empty(t, ids("--user", "other"))
	tasks := b.run("tasks", "--json", root).json(t)["tasks"].([]any)
	require.Len(t, tasks, 2)
	assert.Equal(t, "agent:general", tasks[1].(map[string]any)["name"])
}

func TestVerify(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	root, child := b.delegated("s1")
	assert.Equal(t, "ok, 2 threads checked\n", b.run("verify", "--all").out)
	for thread, checked := range map[string]float64{"--all": 2, root: 2, child: 1} {
		r := b.run("verify", "--json", thread)
		assert.Equal(t, exit.Done, r.code, r.out)
		assert.Equal(t, map[string]any{"ok": true, "checked": checked, "violations": []any{}}, r.json(t))
	}
	r := b.run("verify", "--print", root)
	assert.Equal(t, exit.Done, r.code)
	assert.Contains(t, r.out, child, "linked children in full")
	assert.True(t, strings.HasSuffix(r.out, "\nok, 2 threads checked\n"))
	assert.Len(t, b.run("verify", "--json", "--print", root).json(t)["threads"], 2)
	assert.Equal(t, exit.NotFound, b.run("verify", "x/y").code)
}

func TestCancelAndRetryWithoutTemporal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.answered("s1", "m1", "hello", "hi")
	none := b.run("cancel", "s1/default")
	assert.Equal(t, exit.Conflict, none.code)
	assert.Equal(t, "starter: nothing to cancel: thread s1/default has no open turn\n", none.errout)
	assert.Equal(t, exit.NotFound, b.run("cancel", "s9/default").code)

	r := b.run("retry", "--json", "--request-id", "r1", "s1/default")
	assert.Equal(t, exit.Unavailable, r.code)
	turn := r.json(t)["turnId"]
	assert.Equal(t, turn, b.run("retry", "--json", "--request-id", "r1", "s1/default").json(t)["turnId"])
	assert.Equal(t, exit.Conflict, b.run("retry", "--request-id", "r2", "s1/default").code, "one retry waits already")
	root, child := b.delegated("s2")
	r = b.run("retry", child)
	assert.Equal(t, exit.Usage, r.code)
	assert.Contains(t, r.errout, "tell "+root+" to go on with agent general (resume "+strings.TrimPrefix(child, "agent:general:")+")")

	b.take("s1/default")
	r = b.run("cancel", "--json", "s1/default")
	assert.Equal(t, exit.Unavailable, r.code, "the cancel is stored")
	assert.Equal(t, "stored", r.json(t)["status"])
	assert.Equal(t, turn, r.json(t)["turnId"])
}

func TestHistoryNeedsTemporal(t *testing.T) {
	b := newBench(t)
	b.answered("s1", "m1", "hello", "hi")
	assert.Equal(t, exit.Unavailable, b.run("history", "s1/default").code)
	assert.Equal(t, exit.NotFound, b.run("history", "s2/default").code)
	r := b.run("history", "--run", "zzz", "s1/default")
	assert.Equal(t, exit.Usage, r.code)
	assert.Contains(t, r.errout, `run id "zzz" is not valid`)
}

func TestStaticInformation(t *testing.T) {
	b := newBench(t)
	names := func(kind string) (out []string) {
		for _, x := range b.run(kind, "--json").json(t)[kind].([]any) {
			out = append(out, x.(map[string]any)["name"].(string))
		}
		return out
	}
	assert.Subset(t, names("agents"), []string{"general", "orchestrator", "researcher"})
	assert.Subset(t, names("tools"), []string{"calculator", "ls", "shell"})
	models := b.run("models", "--json").json(t)["models"].([]any)
	assert.Equal(t, true, models[0].(map[string]any)["demo"])
}

// What is not asked for is not looked at.
func TestDoctorChecksWhatItIsAskedFor(t *testing.T) {
	b := newBench(t)
	names := func(only string, code int) (names []string) {
		r := b.run("doctor", "--json", "--only", only)
		assert.Equal(t, code, r.code, only)
		for _, c := range r.json(t)["checks"].([]any) {
			names = append(names, c.(map[string]any)["name"].(string))
		}
		return names
	}
	doc := b.run("doctor", "--json").json(t)
	assert.Contains(t, doc["settings"], map[string]any{"name": "home", "value": b.home, "source": "environment SPOOL_HOME"})
	assert.Equal(t, []string{"store", "temporal", "agents", "model", "tools", "telemetry"}, list(t, doc, "checks", "name"), "all but the worker of this machine")
	assert.Equal(t, []string{"store"}, names("store", exit.Done))
	assert.Equal(t, []string{"store", "temporal"}, names("worker", exit.Unavailable), "and what it needs")
	assert.Equal(t, []string{"agents", "model"}, names("models,agents", exit.Done))
	assert.NotContains(t, b.run("doctor", "--only", "store").out, "retryFor", "the settings are left out")
}

// Each part that is wrong has a finding of its own with what to do, in text and JSON.
func TestDoctorNamesEachPartThatIsWrong(t *testing.T) {
	b := newBench(t)
	project := filepath.Join(b.home, "project")
	b.write("project/.mcp.json", `{"mcpServers":{"one":{"command":"nothing-of-this-name"}}}`)
	b.write("mcp.json", "{broken")
	bad := b.write("agents/bad.md", "---", "tools: Fly", "---", "x")
	b.more = []string{"SPOOL_WORKSPACE=" + project}
	type finding struct {
		Name, Detail, ToDo string
		OK                 bool
	}
	find := func(args ...string) (code int, all []finding) {
		r := b.run(append([]string{"doctor", "--json"}, args...)...)
		var doc struct{ Checks []finding }
		require.NoError(t, json.Unmarshal([]byte(r.out), &doc), r.out)
		for _, c := range doc.Checks {
			assert.True(t, c.OK || c.ToDo != "", "%s says what to do", c.Name)
		}
		return r.code, doc.Checks
	}
	named := func(all []finding, name, detail string, ok bool, todo string) {
		t.Helper()
		for _, c := range all {
			if c.Name == name && strings.Contains(c.Detail, detail) {
				assert.Equal(t, ok, c.OK, c.Detail)
				assert.Contains(t, c.ToDo, todo)
				return
			}
		}
		t.Errorf("no finding %s %q in %+v", name, detail, all)
	}
	code, all := find()
	assert.Equal(t, exit.Unavailable, code)
	named(all, "store", "spool.db", true, "")
	named(all, "temporal", "127.0.0.1:1", false, "TEMPORAL_ADDRESS (environment TEMPORAL_ADDRESS)")
	named(all, "agents", bad+":2", false, "mend the file")
	named(all, "tools", "mcp.json is not the JSON expected", false, "mend the file")
	named(all, "tools", "nobody has agreed to the file", true, "trust shows what it asks for")
	named(all, "model", "scripted demo model", true, "")

	_, all = find("--store", "sqlite:"+filepath.Join(b.home, "none.db"))
	named(all, "store", "there is no store at", false, "or name another one (SPOOL_STORE, flag --store)")
	named(all, "temporal", "127.0.0.1:1", false, "dev starts a local one") // whatever the store is
	_, all = find("--store", "sqlite:"+b.write("damaged.db", strings.Repeat("no database ", 100)))
	named(all, "store", "damaged.db is not a SQLite database", false, "name another one")
}

func TestStoreThatCannotBeOpened(t *testing.T) {
	b := newBench(t)
	path := filepath.Join(b.home, "notastore.db")
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("this is no database ", 200)), 0o600))
	for _, command := range []string{"threads", "doctor", "send x", "chat", "verify --all", "dev"} {
		r := b.run(append(strings.Fields(command), "--store", "sqlite:"+path)...)
		assert.Equal(t, exit.Unavailable, r.code, "%s: %s", command, r.errout)
		assert.Contains(t, r.out+r.errout, path)
	}
	r := b.run("threads", "--json", "--store", "sqlite:"+path)
	assert.Equal(t, "unavailable", r.json(t)["error"].(map[string]any)["code"])
	dir := filepath.Join(b.home, "folder.db")
	require.NoError(t, os.Mkdir(dir, 0o700))
	r = b.run("threads", "--json", "--store", "sqlite:"+dir)
	assert.Equal(t, exit.Unavailable, r.code, r.errout)
	assert.Equal(t, "unavailable", r.json(t)["error"].(map[string]any)["code"])
}

func TestChatIsALoopOverLines(t *testing.T) {
	b := newBench(t)
	r := b.feed("hello\n\n/quit\nnot sent\n", "chat", "-s", "s1")
	assert.Equal(t, exit.Unavailable, r.code, "as send: %s", r.errout)
	assert.Contains(t, r.errout, "saved, but not running")
	assert.Contains(t, r.errout, "go on with: starter chat -s s1")
	inbox, err := b.store.Inbox(t.Context(), "s1/default")
	require.NoError(t, err)
	require.Len(t, inbox, 1)
	assert.Equal(t, "hello", inbox[0].Content.String())
}

func TestOneDevPerHome(t *testing.T) {
	b := newBench(t)
	lock, err := lockHome(b.home)
	require.NoError(t, err)
	defer lock.Close()
	r := b.run("dev")
	assert.Equal(t, exit.Conflict, r.code)
	assert.Contains(t, r.errout, "runs already")
	assert.Contains(t, r.errout, "another --home")
}

func TestDevNeedsTheServerItIsGiven(t *testing.T) {
	b := newBench(t)
	r := b.run("dev", "--temporal", "127.0.0.1:1")
	assert.Equal(t, exit.Unavailable, r.code)
	assert.Contains(t, r.errout, "no Temporal server answers at 127.0.0.1:1")
}
