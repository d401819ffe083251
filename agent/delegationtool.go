package agent

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Names of the two tools of delegation. They are offered together.
const (
	ToolAssignTask = "assign_task"
	ToolTaskOutput = "task_output"
)

// MaxTaskWait bounds how long task_output waits.
const MaxTaskWait = 10 * time.Minute

var (
	//go:embed assign_task.md
	assignTaskDoc string
	//go:embed task_output.md
	taskOutputDoc string

	assignTaskSchema = json.RawMessage(`{"type":"object","properties":{` +
		`"agent":{"type":"string","description":"which agent gets the task"},` +
		`"task":{"type":"string","description":"the whole task: the agent sees nothing else"},` +
		`"description":{"type":"string","description":"the task in a few words"},` +
		`"resume":{"type":"string","description":"id of one of your sub-agents, to go on with its conversation"},` +
		`"background":{"type":"boolean","description":"return at once; the result is reported later"},` +
		`"shareContext":{"type":"boolean","description":"let the agent see this conversation"}},` +
		`"required":["agent","task"],"additionalProperties":false}`)
	taskOutputSchema = json.RawMessage(`{"type":"object","properties":{` +
		`"agentId":{"type":"string","description":"agent id or thread id of a sub-agent; without it all are listed"},` +
		`"waitMs":{"type":"integer","minimum":0,"maximum":600000,"description":"wait up to this many milliseconds for the end"}},` +
		`"additionalProperties":false}`)
)

// AssignTaskSpec describes assign_task to a model that may use these agents.
func AssignTaskSpec(agents []SpecialistAgentConfig) ToolSpec {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(assignTaskDoc))
	for _, c := range agents {
		fmt.Fprintf(&b, "\n- %s: %s", c.Name, strings.Join(strings.Fields(c.Description), " "))
	}
	return ToolSpec{Name: ToolAssignTask, Description: b.String(), Schema: assignTaskSchema}
}

// TaskOutputSpec describes task_output to a model.
func TaskOutputSpec() ToolSpec {
	return ToolSpec{
		Name: ToolTaskOutput, Description: strings.TrimSpace(taskOutputDoc), Schema: taskOutputSchema,
		ReadOnly: true, Repeatable: true,
	}
}

// TaskOutputParams are the arguments of task_output.
type TaskOutputParams struct {
	AgentID string `json:"agentId,omitempty"`
	WaitMs  int64  `json:"waitMs,omitempty"`
}

// ParseTaskOutputParams reads and checks the arguments of a call.
func ParseTaskOutputParams(args json.RawMessage) (TaskOutputParams, error) {
	var p TaskOutputParams
	if len(bytes.TrimSpace(args)) == 0 {
		return p, nil
	}
	if err := strict(args, &p); err != nil {
		return p, Errorf(CodeInvalid, "task_output: %v; it takes agentId and waitMs, both optional", err)
	}
	if p.WaitMs < 0 || p.WaitMs > MaxTaskWait.Milliseconds() {
		return p, Errorf(CodeInvalid, "task_output: waitMs is %d, possible is 0 to %d", p.WaitMs, MaxTaskWait.Milliseconds())
	}
	return p, nil
}

// strict decodes arguments and refuses fields that do not exist.
func strict(args json.RawMessage, to any) error {
	d := json.NewDecoder(bytes.NewReader(args))
	d.DisallowUnknownFields()
	return d.Decode(to)
}

// TaskState is a sub-agent as task_output tells of it.
type TaskState struct {
	AgentType   string
	AgentID     string
	ThreadID    string
	Status      ThreadStatus
	Reason      Reason
	Description string
	// StartedBy is the agent id of its parent where that is not who asks.
	StartedBy string
	// Duration, Usage and Text are those of the turn under way, so far.
	Duration time.Duration
	Usage    Usage
	Text     string
	// Asks are the questions to the user that it waits for an answer to.
	Asks []string
}

// Working reports whether the sub-agent has not ended yet.
func (s TaskState) Working() bool { return !s.Status.Final() }

// ending is the state in a word or two.
func (s TaskState) ending() string {
	if s.Working() {
		return string(s.Status)
	}
	return SpecialistAgentResult{Status: s.Status, Reason: s.Reason}.Ending()
}

// FormatTaskState is what a model reads about a sub-agent that is at work.
func FormatTaskState(s TaskState) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[Agent %s: %s]\nagent id: %s\nthread: %s\nstatus: %s\n", s.AgentType, s.ending(), s.AgentID, s.ThreadID, s.ending())
	fmt.Fprintf(&b, "duration so far: %s, tool calls: %d, tokens: %d\n", roundDuration(s.Duration), s.Usage.ToolCalls, s.Usage.TotalTokens)
	for _, q := range s.Asks {
		fmt.Fprintf(&b, "It waits until the user has answered its question: %s\n", q)
	}
	if s.Text != "" {
		fmt.Fprintf(&b, "\nIts latest text (not its answer yet):\n%s", s.Text)
	} else {
		b.WriteString("\nIt has not said anything yet.")
	}
	return b.String()
}

// FormatTaskList is what a model reads about all sub-agents of its thread, and
// after them those that others started and that report to it.
func FormatTaskList(all []TaskState) string {
	if len(all) == 0 {
		return "This thread has no sub-agents."
	}
	own := slices.IndexFunc(all, func(s TaskState) bool { return s.StartedBy != "" })
	if own < 0 {
		own = len(all)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s of this thread (id, type, status, description):", countSubAgents(own))
	for i, s := range all {
		if i == own {
			fmt.Fprintf(&b, "\n%s of those, reporting to this thread. Only who started one can resume it:", countSubAgents(len(all)-own))
		}
		since, by := "", ""
		if s.Duration > 0 {
			since = " for " + roundDuration(s.Duration).String()
		}
		if s.StartedBy != "" {
			by = " (started by " + s.StartedBy + ")"
		}
		fmt.Fprintf(&b, "\n- %s, %s, %s%s: %s%s", s.AgentID, s.AgentType, s.ending(), since, strings.Join(strings.Fields(s.Description), " "), by)
	}
	return b.String()
}

// atWork matches the state of a sub-agent that has not ended, where FormatTaskState and
// FormatTaskList say it.
var atWork = regexp.MustCompile(`(?m)^(status: |- [^,\n]+, [^,\n]+, )(pending|running|waiting_for_user|waiting_for_approval)\b`)

func countSubAgents(n int) string {
	if n == 1 {
		return "1 sub-agent"
	}
	return strconv.Itoa(n) + " sub-agents"
}
