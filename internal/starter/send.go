package starter

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/memory"
)

// target says which thread a message is for.
type target struct {
	Session      string `short:"s" placeholder:"SESSION" help:"Session; without it a new one is started."`
	Conversation string `short:"c" placeholder:"NAME" help:"Conversation in the session (default: default)."`
	Thread       string `short:"t" placeholder:"THREAD" help:"Id of a thread, or of a session for the conversation it has, in place of session and conversation."`
	Continue     bool   `help:"Go on in the conversation used last in this directory."`
	Agent        string `placeholder:"NAME" help:"Agent that answers from now on."`
	Model        string `placeholder:"NAME" help:"Model that answers from now on."`
}

// Validate checks what can be checked without a store.
func (t *target) Validate() error {
	switch {
	case t.Thread != "" && (t.Session != "" || t.Conversation != ""):
		return fmt.Errorf("--thread replaces --session and --conversation: give one or the other")
	case t.Continue && (t.Thread != "" || t.Session != "" || t.Conversation != ""):
		return fmt.Errorf("--continue finds the thread itself: leave out --session, --conversation and --thread")
	case t.Session != "":
		if err := agent.CheckName("--session", t.Session); err != nil {
			return err
		}
	}
	if t.Conversation != "" {
		if err := agent.CheckName("--conversation", t.Conversation); err != nil {
			return err
		}
	}
	if t.Thread != "" {
		if err := checkThread(t.Thread); err != nil {
			return fmt.Errorf("--thread: %w", err)
		}
	}
	if t.Agent != "" {
		if err := agent.CheckAgentType(t.Agent); err != nil {
			return fmt.Errorf("--agent: %w", err)
		}
	}
	return nil
}

// request makes a message of it.
func (t *target) request(ctx context.Context, c conversations, cfg config.Config) (memory.SendRequest, error) {
	dir, err := os.Getwd()
	if err != nil || cfg.Server != "" { // folders of this machine mean nothing there
		dir = ""
	}
	r := memory.SendRequest{SessionID: t.Session, ConversationID: t.Conversation, Agent: t.Agent, Model: t.Model, Workdir: dir}
	if r.ThreadID, err = thread(ctx, c, t.Thread); err != nil {
		return r, err
	}
	if t.Continue {
		found, err := newest(ctx, c, dir)
		if agent.CodeOf(err) == agent.CodeNotFound {
			return r, agent.Wrap(err, agent.CodeNotFound, "nothing to continue (leave out --continue to start a conversation)")
		}
		if err != nil {
			return r, err
		}
		r.ThreadID = found.ID
	}
	if r.ThreadID == "" && r.SessionID == "" {
		r.SessionID = spool.NewID()
	}
	return r, nil
}

func (t *target) isNew() bool { return t.Session == "" && t.Thread == "" && !t.Continue }

type sendCmd struct {
	target
	MessageID string   `placeholder:"ID" help:"Id of this message; repeating a send with the same id is safe."`
	WhenBusy  string   `placeholder:"queue|steer|reject" help:"While a turn runs: a later turn (queue), into the running one (steer), or refuse (reject). Default: answer the question of the thread or its sub-agents if exactly one is open; refuse if several are, or an approval; else queue."`
	Schema    string   `placeholder:"FILE" type:"path" help:"JSON schema that the answer has to fit; the response is then JSON."`
	Detach    bool     `help:"Return once the message is stored."`
	Wait      bool     `help:"Wait also for people and for workers."`
	Follow    bool     `help:"With --json: print each update as a line when it happens, as show --follow does; the reply is the last line."`
	Image     []string `placeholder:"FILE" help:"Send an image (PNG, JPEG, GIF or WebP) with the message; may be repeated. It is kept in the store, with the conversation."`
	Text      string   `arg:"" help:"The message, or - to read it from stdin."`
}

// Validate checks the arguments.
func (s *sendCmd) Validate() error {
	if err := s.target.Validate(); err != nil {
		return err
	}
	switch memory.WhenBusy(s.WhenBusy) {
	case "", memory.Queue, memory.Steer, memory.Reject:
	default:
		return fmt.Errorf("--when-busy %q is not valid: use queue, steer or reject", s.WhenBusy)
	}
	if s.Schema != "" && memory.WhenBusy(s.WhenBusy) == memory.Steer {
		return fmt.Errorf("--schema is about the answer of a turn, and a steered message has none of its own: leave out --when-busy steer")
	}
	if err := (waiting{s.Detach, s.Wait, s.Follow}).check(); err != nil {
		return err
	}
	if strings.TrimSpace(s.Text) == "" {
		return fmt.Errorf("the message is empty: give a text, or - to read it from stdin")
	}
	return nil
}

// Run sends and waits.
func (s *sendCmd) Run(ctx context.Context, a *app) error {
	if err := a.lines(s.Follow); err != nil {
		return err
	}
	text, err := a.given(s.Text, "message")
	if err != nil {
		return err
	}
	var schema []byte
	if s.Schema != "" {
		if schema, err = os.ReadFile(s.Schema); err != nil {
			return agent.Wrap(err, agent.CodeInvalid, "--schema cannot be read")
		}
	}
	c, cfg, err := s.open(ctx, a)
	if err != nil {
		return err
	}
	req, err := s.request(ctx, c, cfg)
	if err != nil {
		return err
	}
	a.warnOfAgent(cfg, req.Agent)
	if req.Content, err = withImages(ctx, c, text, s.Image); err != nil {
		return err
	}
	req.MessageID, req.WhenBusy = s.MessageID, memory.WhenBusy(s.WhenBusy)
	req.AnswerSchema = schema
	tails, err := tailsOf(ctx, c, req)
	if err != nil {
		return err
	}
	sent, err := c.Send(ctx, req)
	if err != nil {
		return err
	}
	if s.isNew() && !a.json && cfg.Store != memoryStore {
		a.progress("session %s; go on with: %s send -s %s TEXT", sent.SessionID, a.name, sent.SessionID)
	}
	return a.await(ctx, c, sent, tails, waiting{s.Detach, s.Wait, s.Follow})
}

// open opens the store; one who does not wait needs no worker.
func (s *sendCmd) open(ctx context.Context, a *app) (conversations, config.Config, error) {
	open := a.servingThreads
	if s.Detach {
		open = func(ctx context.Context) (conversations, config.Config, error) { return a.newThreads(ctx, true) }
	}
	return open(ctx)
}

// tailsOf is where to follow from, taken before the message is sent.
func tailsOf(ctx context.Context, c conversations, r memory.SendRequest) (map[string]string, error) {
	return c.TailTree(ctx, threadOf(r))
}

// threadOf is the thread that a message is for.
func threadOf(r memory.SendRequest) string {
	if r.ThreadID != "" {
		return r.ThreadID
	}
	conversation := r.ConversationID
	if conversation == "" {
		conversation = agent.DefaultConversation
	}
	return agent.MainThreadID(r.SessionID, conversation)
}

// waiting says how a command waits for a turn.
type waiting struct{ detach, wait, follow bool }

// check refuses what contradicts itself.
func (w waiting) check() error {
	switch {
	case w.detach && w.wait:
		return fmt.Errorf("--detach returns at once and --wait waits: give one of the two")
	case w.detach && w.follow:
		return fmt.Errorf("--detach returns at once and --follow shows what happens: give one of the two")
	}
	return nil
}

// lines refuses --follow without --json.
func (a *app) lines(follow bool) error {
	if follow && !a.json {
		return usage("--follow prints lines of JSON: add --json, or leave it out, as progress is shown in any case")
	}
	return nil
}

// await waits for a turn as asked and reports it.
func (a *app) await(ctx context.Context, c conversations, sent spool.Reply, tails map[string]string, w waiting) error {
	a.answered(sent)
	if sent.Answered != nil && sent.TurnID == "" {
		return a.report(sent, seen{})
	}
	if w.detach || sent.Status == spool.StatusStored && !w.wait {
		return a.report(c.Served(ctx, sent), seen{})
	}
	if sent.Note != "" {
		a.progress("%s", clean(sent.Note))
	}
	t := &talk{a: a, c: c, prompt: a.asks && !a.json, wait: w.wait, stream: a.terminal && !a.json, lines: w.follow}
	reply, err := t.until(ctx, sent, tails)
	if err != nil {
		return a.gone(ctx, c, sent, err)
	}
	reply.MessageID, reply.Repeated, reply.Answered = sent.MessageID, sent.Repeated, sent.Answered
	return a.report(reply, t.seen)
}

// cut warns of an answer that is not whole.
func (a *app) cut(r spool.Reply) {
	if r.Status == string(agent.ThreadCompleted) && r.Note != "" { // the one note of a completed turn
		a.progress("! %s", clean(r.Note))
	}
}

// seen is what was shown of a turn while it ran.
type seen struct {
	answer  bool
	failure string // why it failed, "" = that was not shown
}

// report prints what became of a message and returns its exit code. What was shown
// already is left out of the text.
func (a *app) report(r spool.Reply, shown seen) error {
	if a.json {
		if err := a.printJSON(r); err != nil {
			return err
		}
	} else if r.Response != "" && !shown.answer {
		a.print("%s", responseText(r))
	}
	switch r.Status {
	case string(agent.ThreadCompleted):
		a.cut(r)
		return nil
	case spool.StatusAnswered:
		a.progress("it works in the background and goes on; see: %s show %s", a.name, r.ThreadID)
		return nil
	case spool.StatusStored:
		a.progress("status %s, thread %s, message %s", r.Status, r.ThreadID, r.MessageID)
		if r.Note != "" {
			a.progress("%s", clean(r.Note))
		}
		return ended(exitAway)
	case string(agent.ThreadWaitingForApproval):
		a.progress("waiting for approval; decide with %s approve | deny | edit:", a.name)
		a.listApprovals(r.Pending)
		if len(r.Questions) > 0 {
			a.progress("and for an answer; give it with %s answer QUESTION TEXT:", a.name)
			a.listQuestions(r.Questions)
		}
		return ended(exitWaiting)
	case string(agent.ThreadWaitingForUser):
		how := "answer it with %s answer QUESTION TEXT, or with your next message:"
		if len(r.Questions) > 1 {
			how = "answer them with %s answer QUESTION TEXT:"
		}
		a.progress("waiting for an answer; "+how, a.name)
		a.listQuestions(r.Questions)
		return ended(exitWaiting)
	case string(agent.ThreadRunning), spool.StatusQueued:
		if !a.json {
			a.print("%s", r.ThreadID)
		}
		a.progress("%s, turn %s; see: %s show %s --follow", r.Status, r.TurnID, a.name, r.ThreadID)
		return nil
	case spool.StatusDropped:
		a.progress("the message was dropped by a cancel before it was answered")
		return ended(exitFailed)
	}
	text := r.Status
	if r.Reason != "" && r.Reason != agent.ReasonError && string(r.Reason) != r.Status {
		text += " (" + string(r.Reason) + ")"
	}
	if why := failureLine(r.ErrorCode, r.Error); why != "" && why != r.Status && why != shown.failure {
		text += ": " + strings.TrimPrefix(why, r.Status+": ")
	}
	a.progress("%s; see: %s show %s", text, a.name, r.ThreadID)
	return ended(exitFailed)
}

type retryCmd struct {
	RequestID string `placeholder:"ID" help:"Id of this request; repeating it with the same id is safe."`
	Detach    bool   `help:"Return once the request is stored."`
	Wait      bool   `help:"Wait also for people and for workers."`
	Follow    bool   `help:"With --json: print each update as a line when it happens, as show --follow does; the reply is the last line."`
	Thread    string `arg:"" help:"Id of a thread, or of a session for its default or only conversation."`
}

// Validate checks the arguments.
func (r *retryCmd) Validate() error {
	if err := (waiting{r.Detach, r.Wait, r.Follow}).check(); err != nil {
		return err
	}
	return checkThread(r.Thread)
}

// Run retries and waits.
func (r *retryCmd) Run(ctx context.Context, a *app) error {
	if err := a.lines(r.Follow); err != nil {
		return err
	}
	c, _, err := a.servingThreads(ctx)
	if err != nil {
		return err
	}
	if r.Thread, err = thread(ctx, c, r.Thread); err != nil {
		return err
	}
	tails, err := c.TailTree(ctx, r.Thread)
	if err != nil {
		return err
	}
	sent, err := c.Retry(ctx, r.Thread, r.RequestID)
	if err != nil {
		return err
	}
	return a.await(ctx, c, sent, tails, waiting{r.Detach, r.Wait, r.Follow})
}

type cancelCmd struct {
	All    bool   `help:"Also drop waiting messages and stop background sub-agents."`
	Thread string `arg:"" help:"Id of a thread, or of a session for its default or only conversation."`
}

// Validate checks the arguments.
func (c *cancelCmd) Validate() error { return checkThread(c.Thread) }

// Run cancels and waits for the turn's end.
func (c *cancelCmd) Run(ctx context.Context, a *app) error {
	client, _, err := a.threads(ctx, true)
	if err != nil {
		return err
	}
	if c.Thread, err = thread(ctx, client, c.Thread); err != nil {
		return err
	}
	out, err := client.Cancel(ctx, memory.CancelRequest{ThreadID: c.Thread, All: c.All})
	if err != nil {
		return err
	}
	if a.json {
		err = a.printJSON(out)
	} else {
		a.print("%s", cancelText(out, c.All))
		if out.Running > 0 {
			a.progress("%s in the background; stop with: %s cancel %s --all", goesOn(out.Running), a.name, out.ThreadID)
		}
	}
	if err == nil && tooLate(out) {
		a.progress("the turn had ended before it could be cancelled")
		return ended(exitConflict)
	}
	if err == nil && out.Status == spool.StatusStored {
		a.progress("%s", clean(out.Note))
		return ended(exitAway)
	}
	return err
}

// tooLate reports that a turn ended otherwise than by the cancel, and that the
// cancel did nothing else either.
func tooLate(c spool.Cancelled) bool {
	closed := c.Status == string(agent.ThreadCompleted) || c.Status == string(agent.ThreadFailed)
	return closed && c.Dropped+c.Stopped == 0
}

// cancelText says what a cancel has done.
func cancelText(c spool.Cancelled, all bool) string {
	text := c.ThreadID + " " + c.Status
	if c.Repeated {
		text += fmt.Sprintf(" already (by %s at %s)", c.By, c.At.Format(time.RFC3339))
	}
	if all {
		text += fmt.Sprintf(", %s dropped, %s stopped", plural(c.Dropped, "waiting message"), plural(c.Stopped, "background sub-agent"))
	}
	return text
}

func goesOn(n int) string {
	if n == 1 {
		return "1 sub-agent goes on"
	}
	return fmt.Sprintf("%d sub-agents go on", n)
}
