package starter

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// ask puts an approval to the person at the terminal. Only what is typed after
// the question stands there answers it, never a paste. An empty line leaves it
// open if nothing waits here for it.
func (t *talk) ask(ctx context.Context, p spool.ApprovalRequest, optional bool) (left bool, err error) {
	t.a.progress("%s", wantedText(p))
	d, err := t.verdict(ctx, p, optional)
	if err != nil {
		if errors.Is(err, errLeft) {
			t.a.progress("\napproval %s stays open; decide with %s approve | deny | edit", p.ApprovalID, t.a.name)
		}
		return false, err
	}
	if d.Verdict == "" {
		return true, nil
	}
	res, err := t.c.Decide(ctx, d)
	if agent.CodeOf(err) == agent.CodeConflict {
		t.a.progress("%s", clean(err.Error())) // somebody else was first
		return false, nil
	}
	if err == nil && res.Note != "" {
		t.a.progress("%s", clean(res.Note))
	}
	return false, err
}

// wantedText names the agent and shows each call in full, numbered if there
// are several.
func wantedText(p spool.ApprovalRequest) string {
	lines := []string{visible(p.Agent) + " wants to run:"}
	for i, call := range p.ToolCalls {
		number := ""
		if len(p.ToolCalls) > 1 {
			number = strconv.Itoa(i+1) + ". "
		}
		lines = append(lines, indent(number+requestText(call)))
	}
	return strings.Join(lines, "\n")
}

// verdict asks until the answer is one; none is a decision without a verdict.
func (t *talk) verdict(ctx context.Context, p spool.ApprovalRequest, optional bool) (memory.Decision, error) {
	prompt := "[y]es, [n]o, [e]dit (tell the agent something instead), or the word always (yes, and these tools ask no more in this session): "
	if n := len(p.ToolCalls); n > 1 {
		prompt = "[y]es to all " + strconv.Itoa(n) + ", y 1 for number 1 only, [n]o to all, [e]dit one (tell the agent something instead),\n" +
			"or the word always (yes to all, and these tools ask no more in this session): "
	}
	if optional {
		prompt = "(Enter leaves it open) " + prompt
	}
	line, err := t.readFresh(ctx, prompt)
	for ; err == nil; line, err = t.readLine(ctx, prompt) {
		if line.pasted {
			t.a.progress("a paste is no answer: type it")
			continue
		}
		d := memory.Decision{Target: p.ApprovalID}
		words := strings.Fields(strings.ToLower(line.text))
		if len(words) == 0 {
			if optional {
				return d, nil
			}
			continue
		}
		switch words[0] {
		case "y", "yes":
			d.Verdict = memory.Approve
			if d.Calls, err = callsNamed(p, words[1:]); err != nil {
				t.a.progress("%v", err)
				continue
			}
			return d, nil
		case "always", "n", "no":
			if len(words) > 1 {
				break
			}
			d.Verdict = memory.Deny
			if words[0] == "always" {
				d.Verdict = memory.ApproveAll
			}
			return d, nil
		case "e", "edit":
			if len(words) > 1 {
				break
			}
			if d, err = t.edit(ctx, p); err != nil || d.Verdict != "" {
				return d, err
			}
			continue
		}
		t.a.progress("%q is no answer", cut(visible(line.text), 40))
	}
	return memory.Decision{}, err
}

// callsNamed are the ids of the calls that numbers name; none means all.
func callsNamed(p spool.ApprovalRequest, numbers []string) ([]string, error) {
	var ids []string
	for _, word := range numbers {
		n, err := strconv.Atoi(strings.Trim(word, ",."))
		if err != nil || n < 1 || n > len(p.ToolCalls) {
			return nil, errors.New(visible(word) + " is no call: use numbers from 1 to " + strconv.Itoa(len(p.ToolCalls)))
		}
		ids = append(ids, p.ToolCalls[n-1].ID)
	}
	return ids, nil
}

// edit asks which call is answered and with what. An empty answer goes back to
// the question: the decision has no verdict then.
func (t *talk) edit(ctx context.Context, p spool.ApprovalRequest) (memory.Decision, error) {
	call := p.ToolCalls[0]
	if n := len(p.ToolCalls); n > 1 {
		line, err := t.readLine(ctx, "which call, 1 to "+strconv.Itoa(n)+" (the others are denied; Enter goes back): ")
		if err != nil || line.text == "" {
			return memory.Decision{}, err
		}
		ids, err := callsNamed(p, strings.Fields(line.text))
		if err == nil && len(ids) != 1 {
			err = errors.New("name one call")
		}
		if err != nil {
			t.a.progress("%v", err)
			return memory.Decision{}, nil
		}
		for _, c := range p.ToolCalls {
			if c.ID == ids[0] {
				call = c
			}
		}
	}
	line, err := t.readLine(ctx, "what to tell the agent instead of running "+cut(visible(call.ToolName), 60)+" (Enter goes back): ")
	if err != nil || strings.TrimSpace(line.text) == "" {
		return memory.Decision{}, err
	}
	return memory.Decision{Target: call.ID, Verdict: memory.Edit, Instruction: line.text}, nil
}
