package script

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
)

func user(text string) agent.Message {
	return agent.Message{Role: agent.RoleUser, Content: agent.Text(text)}
}

func assistant(text string) agent.Message {
	return agent.Message{Role: agent.RoleAssistant, Content: agent.Text(text)}
}

func result(text string) agent.Message {
	return agent.Message{Role: agent.RoleTool, Content: agent.Text(text), ToolCallID: "x"}
}

var someTools = []agent.ToolSpec{{Name: "ls"}}

func ask(messages ...agent.Message) Reply {
	return Answer(agent.ModelRequest{Messages: messages, Tools: someTools})
}

// play runs a script to its end; tool runs a call.
func play(t *testing.T, text string, tool func(agent.Call) string) (answer string, replies int) {
	t.Helper()
	messages := []agent.Message{user(text)}
	for {
		r := ask(messages...)
		replies++
		if len(r.Calls) == 0 {
			return r.Text, replies
		}
		messages = append(messages, agent.Message{Role: agent.RoleAssistant, ToolCalls: r.Calls})
		for _, c := range r.Calls {
			messages = append(messages, result(tool(c)))
		}
	}
}

func TestStepsAndModifiers(t *testing.T) {
	text := `script: think hm, well => first 2s slow 50ms call ls {"path":"a ;; b\n"} && calculator {"expression":"1+1"}
fail 429 x3 after 7s call broken {"cut": && ls
break x2 echo So:
say bye\nbye`
	r := ask(user(text))
	require.Empty(t, r.Text)
	require.Equal(t, "hm, well", r.Reasoning)
	require.Equal(t, 2*time.Second, r.First)
	require.Equal(t, 50*time.Millisecond, r.Slow)
	require.Len(t, r.Calls, 2)
	require.Equal(t, `{"path":"a ;; b\n"}`, r.Calls[0].Function.Arguments)
	require.Equal(t, agent.CallFunction{Name: "calculator", Arguments: `{"expression":"1+1"}`}, r.Calls[1].Function)

	r = ask(user(text), assistant(""), result("x"))
	require.Equal(t, Fault{Status: 429, Times: 3, RetryAfter: 7 * time.Second}, r.Fail)
	require.Equal(t, agent.CallFunction{Name: "broken", Arguments: `{"cut":`}, r.Calls[0].Function)
	require.Equal(t, agent.CallFunction{Name: "ls", Arguments: `{}`}, r.Calls[1].Function)

	r = ask(user(text), assistant(""), result("x"), assistant(""), result("one"), result("two"))
	require.Equal(t, 2, r.Breaks)
	require.Equal(t, "So:\n\none\n\ntwo", r.Text)
	require.Equal(t, 2, r.Step)

	require.Equal(t, "bye\nbye", ask(user(text), assistant(""), assistant(""), assistant("")).Text)
	require.Equal(t, "done", ask(user(text), assistant(""), assistant(""), assistant(""), assistant("")).Text)
}

func TestAskStep(t *testing.T) {
	text := `script: ask which "colour"?\nred or blue ;; echo you said:`
	r := ask(user(text))
	require.Equal(t, []agent.CallFunction{{Name: "ask_user", Arguments: `{"question":"which \"colour\"?\nred or blue"}`}},
		[]agent.CallFunction{r.Calls[0].Function})
	require.Equal(t, r.Calls[0].Function, ask(user(Script(Call("ask_user", map[string]string{"question": "which \"colour\"?\nred or blue"})))).Calls[0].Function)
	require.Equal(t, "you said:\n\nblue", ask(user(text), assistant(""), result("blue")).Text)
}

func TestMistakesAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"script: shout hello":      "unknown word",
		"script: slow say hello":   "duration",
		"script: repeat x call ls": "number",
		"script: think hello":      "=>",
		`script: call ls {} hello`: "after a call",
		"script: first 1s":         "missing",
	} {
		require.Contains(t, ask(user(text)).Text, want, text)
	}
}

func TestNestedScriptsToDepthThree(t *testing.T) {
	deepest := Script(Call("ls", map[string]string{"path": ";; && \n\"}"}), "say leaf")
	middle := Script(Task("general", deepest), "echo middle:")
	top := Script(Calls(Task("researcher", middle), Task("general", Script("say other ;; x"))), "echo top:")
	var paths []string
	var run func(c agent.Call) string
	run = func(c agent.Call) string {
		var args struct{ Path, Task string }
		require.NoError(t, json.Unmarshal([]byte(c.Function.Arguments), &args))
		if c.Function.Name == "ls" {
			paths = append(paths, args.Path)
			return "listed"
		}
		answer, _ := play(t, args.Task, run)
		return answer
	}
	answer, replies := play(t, top, run)
	require.Equal(t, 2, replies)
	require.Equal(t, "top:\n\nmiddle:\n\nleaf\n\nother", answer)
	require.Equal(t, []string{";; && \n\"}"}, paths)
}

func TestFiveThousandRounds(t *testing.T) {
	round := 0
	answer, replies := play(t, `script: repeat 5000 call calculator {"expression":"%d+%d"} ;; say all done`, func(c agent.Call) string {
		round++
		require.Equal(t, fmt.Sprintf(`{"expression":"%d+%d"}`, round, round), c.Function.Arguments)
		return "ok"
	})
	require.Equal(t, "all done", answer)
	require.Equal(t, 5001, replies)
}

func TestWhichMessageCounts(t *testing.T) {
	task := user("script: call ls {} ;; say fine")
	called := agent.Message{Role: agent.RoleAssistant, ToolCalls: []agent.Call{agent.NewCall("a", "ls", "{}")}}
	partial := assistant("half")
	partial.Partial = true
	steer := user("be quick")
	steer.Source = "steer"
	require.Equal(t, "fine", ask(task, called, result("x"), user("be quick")).Text, "a steering message")
	require.Len(t, ask(task, steer).Calls, 1, "a known steering message before the first reply")
	require.Len(t, ask(task, partial).Calls, 1, "partial text is not a reply")
	require.Equal(t, Friendly, ask(task, called, result("x"), assistant("fine"), user("hi")).Text)
	require.Equal(t, Friendly, ask(task, called, result(agent.TextAborted), user("hi")).Text, "after a cancel")
	require.Equal(t, Friendly, ask(user("hi")).Text)
	require.Equal(t, Friendly, ask(agent.Message{Role: agent.RoleSystem, Content: agent.Text("script: say no")}, user("hi")).Text)
	require.Equal(t, "new", ask(task, called, result("x"), user("script: say new")).Text)

	old, next := called, user("hi")
	old.TurnID, next.TurnID = "t1", "t2"
	toolResult := result("x")
	toolResult.TurnID = "t1"
	require.Equal(t, Friendly, ask(task, old, toolResult, next).Text, "another turn id")
}

func TestCompactionKeepsTheStep(t *testing.T) {
	task := user("script: repeat 30 call ls {} ;; say end")
	id := agent.CallID(agent.TurnID("s/default", "m1", 0), 20, 0)
	late := agent.Message{Role: agent.RoleAssistant, ToolCalls: []agent.Call{agent.NewCall(id, "ls", "{}")}}
	require.Equal(t, 20, ask(task, late, result("x")).Step, "the step in our call ids")

	called := agent.Message{Role: agent.RoleAssistant, ToolCalls: []agent.Call{agent.NewCall("a", "ls", "{}")}}
	summary := Answer(agent.ModelRequest{Messages: agent.SummaryRequest([]agent.Message{task, called, result("x"), called, result("x")}, 10000)})
	require.Empty(t, summary.Calls)
	after := ask(user("Summary of what went before: "+summary.Text), called, result("x"))
	require.Equal(t, 3, after.Step)
	require.Len(t, after.Calls, 1)
}

func TestDemo(t *testing.T) {
	var delegated []string
	var run func(c agent.Call) string
	run = func(c agent.Call) string {
		if c.Function.Name != "assign_task" {
			return c.Function.Name + " ran"
		}
		var args struct{ Agent, Task string }
		require.NoError(t, json.Unmarshal([]byte(c.Function.Arguments), &args))
		delegated = append(delegated, args.Agent)
		answer, replies := play(t, "Your task:\n"+args.Task, run)
		require.Equal(t, 2, replies, "a child uses a tool, then answers")
		return answer
	}
	answer, replies := play(t, DemoPrompt, run)
	require.Equal(t, 3, replies)
	require.Equal(t, []string{"researcher", "general"}, delegated)
	require.Contains(t, answer, "ls ran")
	require.Contains(t, answer, "calculator ran")
	for _, setting := range []string{"OPENAI_API_KEY", "OPENAI_BASE_URL", "SPOOL_MODEL", "worker", DemoPrompt} {
		require.Contains(t, Friendly, setting)
	}
}

func TestModelStreamsWordByWord(t *testing.T) {
	var text, thought []string
	reply, err := Model{}.Generate(t.Context(), agent.ModelRequest{
		Messages: []agent.Message{user("script: think a b => say one two  three")}, Stream: true,
	}, func(d agent.Delta) {
		if d.Text != "" {
			text = append(text, d.Text)
		}
		if d.Reasoning != "" {
			thought = append(thought, d.Reasoning)
		}
	})
	require.NoError(t, err)
	require.Equal(t, "one two  three", reply.Content)
	require.Equal(t, reply.Content, strings.Join(text, ""))
	require.Greater(t, len(text), 2)
	require.Equal(t, []string{"a ", "b"}, thought)
	require.Equal(t, "stop", reply.FinishReason)
	require.Positive(t, reply.Usage.TotalTokens)
}

func TestModelHonoursContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := Model{}.Generate(ctx, agent.ModelRequest{Messages: []agent.Message{user("script: slow 1h say one two")}}, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func FuzzParse(f *testing.F) {
	f.Add(`call a {"b":1} && c ;; repeat 2 call d {} ;; think x => say y`)
	f.Add("fail 500 x2 after 1s break x1 say\n;;;; call")
	f.Add(`call a {"b":`)
	f.Fuzz(func(_ *testing.T, text string) { parse(text) })
}

// Several reports of background sub-agents leave a script running; one after a
// finished answer opens a turn without a script.
func TestReportsOfBackgroundAgents(t *testing.T) {
	report := func(n string) agent.Message {
		return agent.Message{Role: agent.RoleUser, Content: agent.Text("[Background agent general ended: success]\n" + n)}
	}
	offered := []agent.ToolSpec{{Name: "ls"}}
	call := agent.Message{Role: agent.RoleAssistant, ToolCalls: []agent.Call{agent.NewCall("c", "ls", "{}")}}
	begun := []agent.Message{{Role: agent.RoleUser, Content: agent.Text("script: call ls {} ;; say done")}, call,
		{Role: agent.RoleTool, ToolCallID: "c", Content: agent.Text("x")}}
	running := append(append([]agent.Message{}, begun...), report("1"), report("2"), report("3"))
	require.Equal(t, "done", Answer(agent.ModelRequest{Messages: running, Tools: offered}).Text)
	finished := append(append([]agent.Message{}, begun...), agent.Message{Role: agent.RoleAssistant, Content: agent.Text("done")}, report("1"), report("2"))
	require.Equal(t, Friendly, Answer(agent.ModelRequest{Messages: finished, Tools: offered}).Text)
}
