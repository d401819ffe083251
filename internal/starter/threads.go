package starter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

type threadsCmd struct {
	All     bool   `help:"Include the threads of sub-agents."`
	Session string `short:"s" placeholder:"SESSION" help:"Only this session's."`
	Workdir string `placeholder:"DIR" help:"Only those started in this directory."`
	Limit   int    `placeholder:"N" default:"100" help:"At most this many (default ${default})."`
	After   string `placeholder:"CURSOR" help:"Go on behind an earlier list, which names its cursor."`
}

// Validate checks the arguments.
func (c *threadsCmd) Validate() error {
	if c.Limit < 1 {
		return fmt.Errorf("--limit %d is not valid: use a number from 1", c.Limit)
	}
	if err := spool.CheckPage(c.After); err != nil {
		return fmt.Errorf("--after: %w", err)
	}
	if c.Session != "" {
		return agent.CheckName("--session", c.Session)
	}
	return nil
}

// Run lists threads.
func (c *threadsCmd) Run(ctx context.Context, a *app) error {
	client, _, err := a.threads(ctx, false)
	if err != nil {
		return err
	}
	list, next, err := client.ThreadPage(ctx, memory.ThreadFilter{All: c.All, SessionID: c.Session, Workdir: workdir(c.Workdir)}, c.After, c.Limit)
	if err != nil {
		return err
	}
	waits, err := client.ModelWaits(ctx, "")
	if err != nil {
		return err
	}
	if a.json {
		doc := map[string]any{"threads": list}
		if len(waits) > 0 {
			doc["waits"] = waits
		}
		if next != "" {
			doc["next"] = next
		}
		return a.printJSON(doc)
	}
	if len(list) == 0 {
		a.progress("%s", c.none(a))
	}
	open, err := client.Approvals(ctx, "")
	if err != nil {
		return err
	}
	asked, err := client.Questions(ctx, "")
	if err != nil {
		return err
	}
	for _, t := range list {
		a.print("%-50s %-21s %s %4d messages  %s", t.ID, stateText(t, open, asked, waits), t.UpdatedAt.Local().Format(time.DateTime), t.MessageCount, oneLine(t.Topic, 60))
	}
	if next != "" {
		a.progress("there are more: --after %s", next)
	}
	return nil
}

// none says why nothing is listed.
func (c *threadsCmd) none(a *app) string {
	switch {
	case c.Session != "":
		return "session " + c.Session + " has no threads here"
	case c.Workdir != "":
		return "no thread was started in " + visible(c.Workdir)
	}
	return "there are no threads here yet; " + a.name + " send TEXT starts one"
}

// statusText is a thread's state with the reason of a failure.
func statusText(t agent.Thread) string {
	if t.Status == agent.ThreadFailed && t.Reason != "" {
		return string(t.Status) + "(" + string(t.Reason) + ")"
	}
	return string(t.Status)
}

type tasksCmd struct {
	Thread string `arg:"" help:"Id of a thread, or of a session for its default or only conversation."`
}

// Validate checks the arguments.
func (c *tasksCmd) Validate() error { return checkThread(c.Thread) }

// Run lists tasks.
func (c *tasksCmd) Run(ctx context.Context, a *app) error {
	client, _, err := a.threads(ctx, false)
	if err != nil {
		return err
	}
	if c.Thread, err = thread(ctx, client, c.Thread); err != nil {
		return err
	}
	tasks, err := client.Tasks(ctx, c.Thread)
	if err != nil {
		return err
	}
	asked, err := client.Questions(ctx, c.Thread)
	if err != nil {
		return err
	}
	waits, err := client.ModelWaits(ctx, c.Thread)
	if err != nil {
		return err
	}
	if a.json {
		doc := map[string]any{"tasks": tasks}
		if len(waits) > 0 {
			doc["waits"] = waits
		}
		if len(asked) > 0 {
			doc["questions"] = asked
		}
		return a.printJSON(doc)
	}
	for _, t := range tasks {
		a.print("%s", taskText(t, asked, waits))
	}
	return nil
}

type showCmd struct {
	Events bool   `help:"Include the event log."`
	Follow bool   `help:"Go on until the thread is idle, as things happen."`
	From   string `placeholder:"CURSOR" help:"With --follow: go on after this cursor of an earlier update."`
	Thread string `arg:"" help:"Id of a thread, or of a session for its default or only conversation."`
}

// Validate checks the arguments.
func (c *showCmd) Validate() error {
	if c.From != "" && !c.Follow {
		return fmt.Errorf("--from says where to follow from: add --follow")
	}
	if _, err := spool.ParseCursor(c.From); err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	return checkThread(c.Thread)
}

// Run prints or follows a thread.
func (c *showCmd) Run(ctx context.Context, a *app) error {
	client, _, err := a.threads(ctx, !c.Follow)
	if err != nil {
		return err
	}
	if c.Thread, err = thread(ctx, client, c.Thread); err != nil {
		return err
	}
	if c.Follow {
		return c.follow(ctx, a, client)
	}
	v, err := client.Show(ctx, c.Thread, c.Events)
	if err != nil {
		return err
	}
	if a.json {
		err = a.printJSON(v)
	} else {
		a.showText(v)
	}
	for _, row := range v.Damaged {
		a.progress("left out: %s", clean(row))
	}
	if err == nil && len(v.Damaged) > 0 {
		a.progress("%s verify %s --repair mends what it can", a.name, c.Thread)
		return ended(exitFailed)
	}
	return err
}

// checkFrom refuses a cursor beyond the thread's end, which a person has mistyped.
func (c *showCmd) checkFrom(ctx context.Context, client conversations) error {
	from, err := spool.ParseCursor(c.From)
	if err != nil || from.Seq == 0 {
		return err
	}
	tails, err := client.TailTree(ctx, c.Thread)
	if err != nil {
		return err
	}
	end, err := spool.ParseCursor(tails[c.Thread])
	if err == nil && from.Seq > end.Seq && tails[c.Thread] != "" {
		return agent.Errorf(agent.CodeInvalid, "--from %s: the thread %s has %d events", c.From, c.Thread, end.Seq)
	}
	return err
}

// follow prints updates: JSON lines, or text.
func (c *showCmd) follow(ctx context.Context, a *app, client conversations) error {
	if err := c.checkFrom(ctx, client); err != nil {
		return err
	}
	show := a.printJSON
	if !a.json {
		l := newLive(c.Thread, "", a.stdout, a.progress)
		defer l.endLine()
		show = func(v any) error {
			u := v.(spool.Update)
			if c.Events && u.Event != nil {
				l.endLine()
				a.print("%s", eventText(*u.Event))
			}
			return l.update(u)
		}
	}
	err := client.Follow(ctx, c.Thread, c.From, spool.FollowOptions{UntilIdle: true}, func(u spool.Update) error { return show(u) })
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return ended(exitInterrupt) // told to stop: that is no error to print
	}
	return err
}

func (a *app) showText(v spool.View) {
	t := v.Thread
	a.print("thread   %s", t.ID)
	a.print("status   %s", stateText(t, v.Approvals, v.Questions, v.Waits))
	for _, w := range v.Waits {
		a.print("waits    %s", waitText(w, t.ID))
	}
	if t.ParentThreadID != "" {
		a.print("parent   %s", t.ParentThreadID)
	}
	if t.AgentType != "" {
		a.print("agent    %s", t.AgentType)
	}
	a.print("workdir  %s", clean(t.Workdir))
	a.print("usage    %d messages and %d tool calls of its own; %d model requests and %d tokens with its sub-agents", t.MessageCount, t.ToolCallCount, t.RequestCount, t.TotalTokens)
	if v.UI != "" {
		a.print("temporal %s", v.UI)
	}
	if v.Trouble != "" {
		a.print("trouble  %s", clean(v.Trouble))
	}
	if v.Error != nil {
		a.print("error    %s", strings.ReplaceAll(failureText(v.Error.Code, v.Error.Message), "\n", "\n         "))
	}
	for _, m := range v.Messages {
		a.print("\n%s", messageText(m))
	}
	if v.Pending != nil {
		head, rest, _ := strings.Cut(messageText(*v.Pending), "\n")
		a.print("\n%s (being worked on)\n%s", head, rest)
	}
	section := func(title string, n int) bool {
		if n > 0 {
			a.print("\n%s", title)
		}
		return n > 0
	}
	if section("waiting", len(v.Inbox)) {
		for _, e := range v.Inbox {
			a.print("  %s %s %s %s", e.Kind, e.ID, e.State, oneLine(e.Content.String(), 80))
		}
	}
	if section("approvals", len(v.Approvals)) {
		for _, p := range v.Approvals {
			a.print("%s", indent(approvalText(p)))
		}
	}
	if section("questions", len(v.Questions)) {
		for _, q := range v.Questions {
			a.print("%s", indent(questionText(q)))
		}
	}
	if section("tool calls", len(v.ToolCalls)) {
		for _, call := range v.ToolCalls {
			a.print("  %-17s %s", callStatus(call.Status, call.ErrorReason), callText(call.ToolName, call.Args))
		}
	}
	if section("tasks", len(v.Tasks)) {
		for _, task := range v.Tasks {
			a.print("%s", indent(taskText(task, v.Questions, v.Waits)))
		}
	}
	if section("events", len(v.Events)) {
		for _, e := range v.Events {
			a.print("  %s", eventText(e))
		}
	}
}

// messageText is a message as a person reads it.
func messageText(m agent.Message) string {
	head := string(m.Role)
	if m.Seq > 0 {
		head = fmt.Sprintf("#%d %s", m.Seq, m.Role)
	}
	if m.Name != "" {
		head += " " + oneLine(m.Name, 60)
	}
	if m.Source != "" && m.Source != "user" {
		head += " from " + oneLine(m.Source, 120)
	}
	if m.Status != "" && m.Status != agent.CallSuccess {
		head += " " + callStatus(m.Status, m.ErrorReason)
	}
	if m.Partial {
		head += " (broken off)"
	}
	if m.SupersededBy != "" {
		head += " (superseded)"
	}
	lines := []string{head}
	text := shownContent(m.Content)
	if m.Partial {
		text = brokenOff(text)
	}
	if text != "" {
		lines = append(lines, indent(clean(text)))
	}
	for _, call := range m.ToolCalls {
		lines = append(lines, "  → "+callText(call.Function.Name, []byte(call.Function.Arguments))+"  "+call.ID)
	}
	return strings.Join(lines, "\n")
}

func eventText(e agent.Event) string {
	return fmt.Sprintf("%5d %s %-22s %s", e.Seq, e.At.Local().Format("15:04:05.000"), e.Type, oneLine(string(e.Data), 140))
}

func indent(s string) string { return "  " + strings.ReplaceAll(s, "\n", "\n  ") }

type traceCmd struct {
	Thread string `arg:"" help:"Id of a thread, or of a session for its default or only conversation."`
}

// Validate checks the arguments.
func (c *traceCmd) Validate() error { return checkThread(c.Thread) }

// Run prints the tree.
func (c *traceCmd) Run(ctx context.Context, a *app) error {
	client, _, err := a.threads(ctx, false)
	if err != nil {
		return err
	}
	if c.Thread, err = thread(ctx, client, c.Thread); err != nil {
		return err
	}
	n, err := client.Trace(ctx, c.Thread)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(n)
	}
	for i, up := range n.Up {
		pad := strings.Repeat("  ", i)
		a.print("%s%s  %s  %s", pad, up.ThreadID, up.Status, costText(up.DurationMs, up.Tokens, up.Price))
		if up.UI != "" {
			a.print("%s  %s", pad, up.UI)
		}
	}
	a.printTree(n, len(n.Up))
	return nil
}

// costText is what a thread has used, with all below it.
func costText(ms, tokens int64, price float64) string {
	text := fmt.Sprintf("%s, %d tokens", short(time.Duration(ms)*time.Millisecond), tokens)
	if price > 0 {
		text += fmt.Sprintf(", $%.4f", price)
	}
	return text
}

// printTree prints a node and what is below it.
func (a *app) printTree(n *spool.Node, depth int) {
	pad := strings.Repeat("  ", depth)
	a.print("%s%s  %s  %s", pad, n.Thread.ID, statusText(n.Thread), costText(n.DurationMs, n.Tokens, n.Price))
	if n.Link != nil {
		l := n.Link
		calls := l.Calls
		if len(calls) == 0 {
			calls = []spool.LinkCall{{ToolCallID: l.ToolCallID, CallStatus: l.CallStatus, TaskID: l.TaskID, TaskStatus: l.TaskStatus, Instruction: l.Instruction, Background: l.Background}}
		}
		for _, c := range calls {
			how := ""
			if c.Background {
				how = " in the background"
			}
			a.print("%s  ↑ call %s (%s), task %s (%s)%s: %s", pad, c.ToolCallID, c.CallStatus, c.TaskID, c.TaskStatus, how, oneLine(c.Instruction, 60))
		}
	}
	if n.Error != nil {
		a.print("%s  ✗ %s", pad, failureLine(n.Error.Code, n.Error.Message))
	}
	if n.UI != "" {
		a.print("%s  %s", pad, n.UI)
	}
	if n.Wait != nil {
		a.print("%s  … %s", pad, waitText(*n.Wait, n.Thread.ID))
	}
	for _, q := range n.Questions {
		a.print("%s  ? %s: %s", pad, q.QuestionID, oneLine(q.Text, 120))
	}
	for _, child := range n.Children {
		a.printTree(child, depth+1)
	}
}
