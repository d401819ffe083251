package chat

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/printer"
	"github.com/spool-agents/spool/internal/terminal"
	"github.com/spool-agents/spool/memory"
)

// ask is an approval or a question that waits for a person. put puts it to the one at
// the terminal; if it is optional, an empty line leaves it open.
type ask struct {
	id  string
	put func(ctx context.Context, optional bool) (stays bool, err error)
}

func (t *Talk) asks(approvals []spool.ApprovalRequest, questions []spool.QuestionRequest) (list []ask) {
	for _, a := range approvals {
		list = append(list, ask{a.ApprovalID, func(ctx context.Context, optional bool) (bool, error) { return t.approval(ctx, a, optional) }})
	}
	for _, q := range questions {
		list = append(list, ask{q.QuestionID, func(ctx context.Context, optional bool) (bool, error) { return t.question(ctx, q, optional) }})
	}
	return list
}

// putOpen puts what no turn waits for here to the person, each once: a message that is
// typed at the prompt is no answer to what was not seen. It returns how much is left
// open, and whether it put anything.
func (t *Talk) putOpen(ctx context.Context, threadID string, put map[string]bool) (open int, asked bool, err error) {
	if !t.Prompt {
		return 0, false, nil
	}
	approvals, err := t.C.Approvals(ctx, threadID)
	if agent.CodeOf(err) == agent.CodeNotFound {
		return 0, false, nil // the thread is made with its first message
	}
	if err != nil {
		return 0, false, err
	}
	questions, err := t.C.Questions(ctx, threadID)
	if err != nil {
		return 0, false, err
	}
	for _, one := range t.asks(approvals, questions) {
		stays := put[one.id]
		if !stays {
			put[one.id], asked = true, true
			if stays, err = one.put(ctx, true); err != nil {
				return open, asked, err
			}
		}
		if stays {
			open++
		}
	}
	return open, asked, nil
}

// settle is how long a question stands before an answer counts: what was on its
// way to something else is no answer.
const settle = 400 * time.Millisecond

func (t *Talk) readLine(ctx context.Context, prompt string) (string, error) {
	return t.Typed.Next(ctx, prompt, t.Interrupts)
}

// answer asks until take takes a line. Only what is typed after the question stands
// there answers it.
func (t *Talk) answer(ctx context.Context, prompt string, take func(string) (done bool, err error)) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(settle):
	}
	t.Typed.Forget()
	for {
		line, err := t.readLine(ctx, prompt)
		if err != nil {
			return err
		}
		if done, err := take(line); done || err != nil {
			return err
		}
	}
}

// Confirm asks for yes or no. All but a typed y or yes is no, leaving too.
func (p *Person) Confirm(ctx context.Context, prompt string) (yes bool, err error) {
	if p.Forms != nil {
		p.Progress("%s", prompt)
		yes, err = p.Forms.Confirm(ctx)
	} else {
		err = (&Talk{Person: p}).answer(ctx, prompt, func(line string) (bool, error) {
			said := strings.ToLower(strings.TrimSpace(line))
			yes = said == "y" || said == "yes"
			return true, nil
		})
	}
	if left(err) {
		err = nil
	}
	return yes, err
}

// saved says what became of a decision or an answer, if there is something to say.
func (t *Talk) saved(note string, err error) error {
	if agent.CodeOf(err) == agent.CodeConflict { // somebody else was first
		note, err = err.Error(), nil
	}
	if err == nil && note != "" {
		t.Progress("%s", terminal.Clean(note))
	}
	return err
}

func (t *Talk) question(ctx context.Context, q spool.QuestionRequest, optional bool) (stays bool, err error) {
	t.Progress("%s", printer.Asked(q))
	prompt := "your answer: "
	if len(q.Options) > 0 {
		prompt = "your answer, or a number: "
	}
	if optional {
		prompt = strings.Replace(prompt, ":", " (Enter leaves it open):", 1)
	}
	take := func(line string) (bool, error) {
		if !utf8.ValidString(line) {
			t.Progress("this is not valid UTF-8; nothing was sent")
			return false, nil
		}
		if strings.TrimSpace(line) == "" {
			stays = optional
			return optional, nil
		}
		done, err := t.C.Answer(ctx, memory.AnswerRequest{Target: q.QuestionID, Text: line})
		return true, t.saved(done.Note, err)
	}
	if t.Forms != nil {
		var text string
		if text, err = t.Forms.Question(ctx, q); err == nil {
			_, err = take(text)
		}
	} else {
		err = t.answer(ctx, prompt, take)
	}
	if errors.Is(err, terminal.ErrLeft) {
		t.Progress("\nquestion %s stays open; answer it with %s answer %s TEXT", q.QuestionID, t.Name, q.QuestionID)
	}
	return stays, err
}

func (t *Talk) approval(ctx context.Context, a spool.ApprovalRequest, optional bool) (stays bool, err error) {
	t.Progress("%s", printer.Wanted(a))
	yes, always, like := printer.Offered(a)
	offers := []string{"[y]es", "[n]o", "[e]dit (tell the agent something instead)"}
	if n := len(a.ToolCalls); n > 1 {
		offers = []string{"[y]es to all " + strconv.Itoa(n) + ", y 1 for number 1 only", "[n]o to all", "[e]dit one (tell the agent something instead)"}
	}
	if !yes {
		offers = offers[1:]
	}
	if like != "" {
		offers = append(offers, "the word like (yes, and "+like+" asks no more in this session)")
	}
	if always {
		offers = append(offers, "or the word always (yes, and these tools ask no more in this session; what must ask each time still does)")
	}
	prompt := strings.Join(offers, ", ") + ": "
	if optional {
		prompt = "(Enter leaves it open) " + prompt
	}
	decide := func(d memory.Decision) (bool, error) {
		done, err := t.C.Decide(ctx, d)
		if agent.CodeOf(err) == agent.CodeInvalid { // not for this person to decide
			t.Progress("%v", err)
			return false, nil
		}
		return true, t.saved(done.Note, err)
	}
	for decided := false; t.Forms != nil && !decided && err == nil; {
		var d memory.Decision
		if d, err = t.Forms.Approval(ctx, a); err == nil {
			decided, err = decide(d)
		}
	}
	if t.Forms == nil {
		err = t.answer(ctx, prompt, func(line string) (bool, error) {
			if strings.TrimSpace(line) == "" {
				stays = optional
				return optional, nil
			}
			d, err := t.verdict(ctx, a, line)
			if err != nil || d.Verdict == "" {
				return false, err
			}
			return decide(d)
		})
	}
	if errors.Is(err, terminal.ErrLeft) {
		t.Progress("\napproval %s stays open; decide with %s approve | deny | edit", a.ApprovalID, t.Name)
	}
	return stays, err
}

// verdict is the decision in a line; none is one without a verdict. What is not offered is
// no answer.
func (t *Talk) verdict(ctx context.Context, a spool.ApprovalRequest, line string) (d memory.Decision, err error) {
	words := strings.Fields(strings.ToLower(line))
	d.Target = a.ApprovalID
	yes, always, like := printer.Offered(a)
	switch alone := len(words) == 1; {
	case (words[0] == "y" || words[0] == "yes") && yes && (alone || len(a.ToolCalls) > 1):
		ids, err := callsNamed(a, words[1:])
		if err != nil {
			t.Progress("%v", err)
			return d, nil
		}
		d.Verdict, d.Calls = memory.Approve, ids
	case words[0] == "like" && alone && like != "":
		d.Verdict, d.Narrow = memory.ApproveAll, true
	case words[0] == "always" && alone && always:
		d.Verdict = memory.ApproveAll
	case (words[0] == "n" || words[0] == "no") && alone:
		d.Verdict = memory.Deny
	case (words[0] == "e" || words[0] == "edit") && alone:
		return t.edit(ctx, a)
	default:
		t.Progress("%q is no answer", terminal.Cut(terminal.Visible(line), 40))
	}
	return d, nil
}

// callsNamed are the ids of the calls that numbers name; none means all.
func callsNamed(a spool.ApprovalRequest, numbers []string) ([]string, error) {
	var ids []string
	for _, word := range numbers {
		n, err := strconv.Atoi(strings.Trim(word, ",."))
		if err != nil || n < 1 || n > len(a.ToolCalls) {
			return nil, errors.New(terminal.Visible(word) + " is no call: use numbers from 1 to " + strconv.Itoa(len(a.ToolCalls)))
		}
		ids = append(ids, a.ToolCalls[n-1].ID)
	}
	return ids, nil
}

// edit asks which call is answered and with what. An empty answer goes back to
// the question: the decision has no verdict then.
func (t *Talk) edit(ctx context.Context, a spool.ApprovalRequest) (none memory.Decision, err error) {
	which := []string{"1"}
	if n := len(a.ToolCalls); n > 1 {
		line, err := t.readLine(ctx, "which call, 1 to "+strconv.Itoa(n)+" (the others are denied; Enter goes back): ")
		if which = strings.Fields(line); err != nil || len(which) == 0 {
			return none, err
		}
	}
	ids, err := callsNamed(a, which[:1])
	if err != nil {
		t.Progress("%v", err)
		return none, nil
	}
	name := ""
	for _, c := range a.ToolCalls {
		if c.ID == ids[0] {
			name = terminal.Cut(terminal.Visible(c.ToolName), 60)
		}
	}
	line, err := t.readLine(ctx, "what to tell the agent instead of running "+name+" (Enter goes back): ")
	if err != nil || strings.TrimSpace(line) == "" {
		return none, err
	}
	return memory.Decision{Target: ids[0], Verdict: memory.Edit, Instruction: line}, nil
}
