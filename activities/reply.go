package activities

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
	"github.com/spool-agents/spool/memory"
)

// checkWithin bounds the checks of a reply's calls. What is not known by then is
// asked about.
const checkWithin = 15 * time.Second

// judge says of each call of a reply whether it runs at once, asks a person, or is
// refused. What cannot succeed is refused before anybody is asked about it.
func (a *Activities) judge(ctx context.Context, t agent.Thread, offered []agent.ToolSpec, record *memory.ReplyRecord) {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	record.Refusals = make([]agent.ToolResult, len(record.Reply.Calls))
	run := a.run(t)
	run.Named = a.named(ctx, t)
	for i := range record.Reply.Calls {
		record.Refusals[i] = a.readCall(&record.Reply.Calls[i], offered)
		c := record.Reply.Calls[i]
		run.Args = json.RawMessage(c.Function.Arguments)
		gate := a.gate(t.Config, c, run)
		if gate.Asks() && record.Refusals[i].Status == "" {
			if refusal, refused := a.Tools.Check(ctx, c.Function.Name, run); refused {
				record.Refusals[i] = refusal
			}
			gate = a.gate(t.Config, c, run) // the check may have brought up the server that has the tool
		}
		record.Gates = append(record.Gates, gate)
		record.Delegations = append(record.Delegations, c.Function.Name == agent.ToolAssignTask)
	}
}

// gate applies the approval policies to a call: the agent's own and, as bounds,
// those of the agents above. A tool that cannot run needs no approval.
func (a *Activities) gate(c agent.SpecialistAgentConfig, call agent.Call, run agent.ToolRun) agent.Gate {
	name := call.Function.Name
	if name == agent.ToolAskUser {
		return askGate(c, call)
	}
	if _, known := a.Tools.Lookup(name); !known || !agent.MayUse(c.Tools, name) {
		return agent.GateAuto
	}
	gate := a.Tools.Gate(name, run, c.Approval)
	for _, bound := range c.Bounds {
		gate = gate.Stricter(a.Tools.Gate(name, run, bound))
	}
	if c.Unagreed && gate.Asks() {
		return agent.GateAskEach
	}
	return gate
}

// deniesEdited reports whether a policy denies a call with the arguments that a person gave it.
func (a *Activities) deniesEdited(t agent.Thread, call agent.ToolCall) bool {
	run := a.run(t)
	run.Args = call.Args
	return call.Gate == agent.GateEdited && a.gate(t.Config, agent.NewCall(call.ID, call.ToolName, string(call.Args)), run) == agent.GateDeny
}

// askGate is the gate of a question to a person: no person need approve it, but a
// policy may deny it.
func askGate(c agent.SpecialistAgentConfig, call agent.Call) agent.Gate {
	for _, policy := range append(slices.Clone(c.Bounds), c.Approval) {
		if tool.Gate(agent.AskUserSpec(), agent.ToolRun{Args: json.RawMessage(call.Function.Arguments)}, policy) == agent.GateDeny {
			return agent.GateDeny
		}
	}
	return agent.GateAuto
}

// readCall puts a call into the form that is stored and run: arguments that every
// parser takes, with the types that its tool asks for. It returns the result of a call
// that cannot be read.
func (a *Activities) readCall(c *agent.Call, offered []agent.ToolSpec) agent.ToolResult {
	name := meantTool(c.Function.Name, offered)
	c.Function.Name = name
	args, err := agent.ReadArguments(c.Function.Arguments)
	if err != nil {
		args = agent.UnreadArguments(c.Function.Arguments)
	}
	c.Function.Arguments = args
	if name == "" {
		return agent.ToolFailed(agent.ErrToolNotFound, "The call names no tool, so nothing was run: make it again with the name of a tool.")
	}
	if err != nil {
		return agent.ToolFailed(agent.ErrInvalidInput, "%s", agent.RefuseArguments(agent.CleanText(name), err))
	}
	if i := slices.IndexFunc(offered, func(s agent.ToolSpec) bool { return s.Name == name }); i >= 0 {
		c.Function.Arguments = tool.Fit(offered[i], args)
	}
	return agent.ToolResult{}
}

// meantTool is the tool that a call names: the name itself, or the only tool that is a word of
// it. Servers leave marks of a template around it, such as functions.ls, ls<|channel|>json.
func meantTool(name string, offered []agent.ToolSpec) string {
	found := map[string]bool{}
	for _, word := range append(toolWord.FindAllString(name, -1), name) {
		for _, s := range offered {
			if s.Name == name {
				return name
			}
			if strings.EqualFold(s.Name, word) {
				found[s.Name] = true
			}
		}
	}
	for tool := range found {
		if len(found) == 1 {
			return tool
		}
	}
	return name
}

// checkAnswer checks a final answer against the schema that a person gave, without what
// the model said around it, which is kept as its reasoning. One that does not fit is
// repeated once, with what is wrong.
func checkAnswer(begun memory.ModelStart, reply *agent.ModelReply) error {
	schema := begun.Turn.AnswerSchema
	if len(schema) == 0 || len(reply.Calls) > 0 {
		return nil
	}
	clean, problem := tool.CheckAnswer(schema, reply.Content)
	fits := map[string]string{}
	if problem == "" {
		fits[clean] = ""
	} else {
		for _, a := range agent.Answers(reply.Content) {
			if _, problem := tool.CheckAnswer(schema, a.Value); problem == "" {
				fits[a.Value] = a.Around
			}
		}
	}
	if len(fits) > 1 {
		problem = "it holds several JSON values that fit; one alone is wanted"
		clear(fits)
	}
	for value, around := range fits {
		harmless, err := agent.ReadJSON(value)
		if err == nil {
			reply.Content, reply.Reasoning = harmless, joined(reply.Reasoning, around)
			return nil
		}
		problem = err.Error()
	}
	reply.Charged = true
	return &agent.ModelError{
		Code: agent.ModelAnswerInvalid, Retryable: begun.LastCode != agent.ModelAnswerInvalid,
		Message: strings.TrimSuffix(problem, ".") + ".\nThe answer was:\n" + agent.Shorten(clean, 4000, ""),
	}
}

// joined are two texts, one below the other.
func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n" + b
}

// callMarks begin the tool calls that models write where no parser of their server
// takes them out.
var callMarks = regexp.MustCompile("<tool_calls?>|<[|｜]tool|<[|｜](python_tag|function_call|channel)|\\[TOOL_CALLS\\]|<function[= ]|<function_calls>|<invoke |functools\\[|```tool_code|" +
	`"name"\s*:\s*"[\w-]+"\s*,\s*"(arguments|parameters)"\s*:`)

var toolWord = regexp.MustCompile(`[A-Za-z0-9_-]+`)

// writtenAsText is a warning if an answer holds a call of a tool as text: then the
// server has no parser for the calls of this model, and no tool ever runs.
func writtenAsText(offered []agent.ToolSpec, reply agent.ModelReply) []agent.Warning {
	const near = 300 // bytes from the mark to the name
	at := callMarks.FindStringIndex(reply.Content)
	if len(reply.Calls) > 0 || at == nil {
		return nil
	}
	begin := reply.Content[at[0]:min(at[0]+near, len(reply.Content))]
	for _, word := range toolWord.FindAllString(begin, -1) {
		if slices.ContainsFunc(offered, func(s agent.ToolSpec) bool { return s.Name == word }) {
			return []agent.Warning{agent.CallAsText(word)}
		}
	}
	return nil
}
