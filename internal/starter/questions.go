package starter

import (
	"context"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

type questionsCmd struct {
	Thread string `arg:"" optional:"" help:"Only those of this thread and its sub-agents."`
}

// Validate checks the arguments.
func (c *questionsCmd) Validate() error {
	if c.Thread == "" {
		return nil
	}
	return checkThread(c.Thread)
}

// Run lists open questions.
func (c *questionsCmd) Run(ctx context.Context, a *app) error {
	client, _, err := a.threads(ctx, false)
	if err != nil {
		return err
	}
	if c.Thread, err = thread(ctx, client, c.Thread); err != nil {
		return err
	}
	open, err := client.Questions(ctx, c.Thread)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]any{"questions": open})
	}
	if len(open) == 0 {
		a.progress("no question waits for an answer")
	}
	for _, q := range open {
		a.print("%s", questionText(q))
	}
	return nil
}

func (a *app) listQuestions(open []spool.QuestionRequest) {
	for _, q := range open {
		a.progress("%s", questionText(q))
	}
}

// questionText is an open question in full, with who asks and for what task.
func questionText(q spool.QuestionRequest) string {
	lines := []string{q.QuestionID + "  " + visible(q.Agent) + "  " + q.ThreadID}
	if q.Task != "" {
		lines = append(lines, indent("task: "+oneLine(q.Task, 100)))
	}
	return strings.Join(append(lines, indent(clean(q.Text))), "\n")
}

type answerCmd struct {
	Question string `arg:"" help:"Id of the question, as questions lists it."`
	Text     string `arg:"" help:"The answer, or - to read it from stdin."`
}

// Run answers a question.
func (c *answerCmd) Run(ctx context.Context, a *app) error {
	text, err := a.given(c.Text, "answer")
	if err != nil {
		return err
	}
	client, _, err := a.threads(ctx, true)
	if err != nil {
		return err
	}
	done, err := client.Answer(ctx, memory.AnswerRequest{Target: c.Question, Text: text})
	if err != nil {
		return err
	}
	if a.json {
		err = a.printJSON(done)
	} else {
		a.print("%s answered", done.Question.ID)
	}
	if done.Note != "" {
		a.progress("%s", clean(done.Note))
	}
	if err == nil && done.Stored {
		return ended(exitAway)
	}
	return err
}

// given is a text of the command line, or what stdin holds for "-".
func (a *app) given(text, what string) (string, error) {
	if text == "-" {
		raw, err := io.ReadAll(a.stdin)
		if err != nil {
			return "", agent.Wrap(err, agent.CodeInvalid, "cannot read the %s from stdin", what)
		}
		if text = strings.TrimRight(string(raw), "\r\n"); strings.TrimSpace(text) == "" {
			return "", usage("the " + what + " on stdin is empty")
		}
	}
	switch {
	case strings.TrimSpace(text) == "":
		return "", usage("the " + what + " is empty: give a text, or - to read it from stdin")
	case !utf8.ValidString(text):
		return "", usage("the " + what + " is not valid UTF-8")
	}
	return text, nil
}

// answered tells that a message was the answer to a question.
func (a *app) answered(r spool.Reply) {
	if q := r.Answered; q != nil {
		a.progress("this answered question %s of %s: %s", q.QuestionID, visible(q.Agent), oneLine(q.Text, 200))
	}
}

// answer puts a question to the person at the terminal. Only what is typed after
// the question stands there answers it; a paste is an answer too. An empty line
// leaves it open if nothing waits here for it.
func (t *talk) answer(ctx context.Context, q spool.QuestionRequest, optional bool) (left bool, err error) {
	head := visible(q.Agent) + " asks"
	if q.Task != "" {
		head += " (task: " + oneLine(q.Task, 100) + ")"
	}
	t.a.progress("%s:\n%s", head, indent(clean(q.Text)))
	prompt := "your answer: "
	if optional {
		prompt = "your answer (Enter leaves it open): "
	}
	line, err := t.readFresh(ctx, prompt)
	for ; err == nil; line, err = t.readLine(ctx, prompt) {
		switch {
		case !utf8.ValidString(line.text):
			t.a.progress("this is not valid UTF-8; nothing was sent")
			continue
		case strings.TrimSpace(line.text) == "" && optional:
			return true, nil
		case strings.TrimSpace(line.text) == "":
			continue
		}
		res, err := t.c.Answer(ctx, memory.AnswerRequest{Target: q.QuestionID, Text: line.text})
		if agent.CodeOf(err) == agent.CodeConflict {
			t.a.progress("%s", clean(err.Error())) // somebody else was first
			return false, nil
		}
		if err == nil && res.Note != "" {
			t.a.progress("%s", clean(res.Note))
		}
		return false, err
	}
	if errors.Is(err, errLeft) {
		t.a.progress("\nquestion %s stays open; answer it with %s answer %s TEXT", q.QuestionID, t.a.name, q.QuestionID)
	}
	return false, err
}

// putOpen puts the approvals and questions of a conversation to the person that no turn waits
// for here, each once: a message that is typed at the prompt is no answer to one
// that was not seen. It reports how many are left open, and whether it put any.
func (t *talk) putOpen(ctx context.Context, threadID string, put map[string]bool) (left int, asked bool, err error) {
	if !t.prompt {
		return 0, false, nil
	}
	wanted, err := t.c.Approvals(ctx, threadID)
	if agent.CodeOf(err) == agent.CodeNotFound {
		return 0, false, nil // the thread is made with its first message
	}
	if err != nil {
		return 0, false, err
	}
	for _, p := range wanted {
		if put[p.ApprovalID] {
			left++
			continue
		}
		put[p.ApprovalID], asked = true, true
		stays, err := t.ask(ctx, p, true)
		if err != nil {
			return left, asked, err
		}
		if stays {
			left++
		}
	}
	open, err := t.c.Questions(ctx, threadID)
	if err != nil {
		return left, asked, err
	}
	for _, q := range open {
		if put[q.QuestionID] {
			left++
			continue
		}
		put[q.QuestionID], asked = true, true
		stays, err := t.answer(ctx, q, true)
		if err != nil {
			return left, asked, err
		}
		if stays {
			left++
		}
	}
	return left, asked, nil
}
