package workflows

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/contract"
)

// details is what Temporal's web UI shows of a turn under way. Nothing in it is needed
// for the turn.
type details struct {
	step     int
	tokens   int64
	model    string
	children []contract.Child
	// waits are what the turn waits for, provider the pause of its model call.
	waits    []*waiting
	provider string
	runs     string // quick calls under way
}

type waiting struct {
	kind string // a value of the search attribute contract.WaitsFor
	text string
}

// begin takes over what the store knows of the turn.
func (d *details) begin(c contract.ClaimOutput) {
	*d = details{step: c.Step}
	if a := c.About; a != nil {
		d.tokens, d.model, d.children = a.Tokens, a.Model, slices.Clone(a.Children)
	}
}

// ended marks a sub-agent that works no more.
func (d *details) ended(thread string) {
	for i := range d.children {
		d.children[i].Ended = d.children[i].Ended || d.children[i].Thread == thread
	}
}

// waitsFor shows what the turn waits for, until done is called; sinceMs is since when,
// 0 = now.
func (r *run) waitsFor(kind string, sinceMs int64, format string, args ...any) (done func()) {
	since := time.UnixMilli(cmp.Or(sinceMs, workflow.Now(r.save).UnixMilli())).UTC()
	w := &waiting{kind: kind, text: fmt.Sprintf(format, args...) + " since " + since.Format("2006-01-02 15:04 UTC")}
	r.details.waits = append(r.details.waits, w)
	r.show()
	return func() {
		r.details.waits = slices.DeleteFunc(r.details.waits, func(x *waiting) bool { return x == w })
		r.show()
	}
}

// providerWaits shows that a model call is made again later; an empty text ends it.
func (r *run) providerWaits(text string) {
	if r.details.provider != text {
		r.details.provider = text
		r.show()
	}
}

// describe sets the search attributes, where the namespace has them, and shows the
// details.
func (r *run) describe() {
	if len(r.claim.Attributes) > 0 {
		var updates []temporal.SearchAttributeUpdate
		for _, name := range contract.SearchAttributes {
			if v := r.claim.Attributes[name]; v != "" {
				updates = append(updates, temporal.NewSearchAttributeKeyKeyword(name).ValueSet(v))
			}
		}
		// An error here means that the attributes are malformed: nothing a turn
		// should end for.
		_ = workflow.UpsertTypedSearchAttributes(r.save, updates...)
	}
	r.showDetails()
}

// show brings details and the search attribute of what is waited for up to date.
func (r *run) show() {
	r.showDetails()
	kind := ""
	if r.details.provider != "" {
		kind = contract.WaitsForProvider
	}
	for _, w := range r.details.waits {
		if kind != contract.WaitsForPerson {
			kind = w.kind
		}
	}
	r.showWaits(kind)
}

// versionWaits is the version from which on runs say in a search attribute what they
// wait for.
const versionWaits = "waits-for"

// showWaits sets the search attribute; "" removes it. Histories of earlier builds have
// no such command.
func (r *run) showWaits(kind string) {
	if kind == r.shown || r.shown == "" && (r.claim.About == nil || len(r.claim.Attributes) == 0 ||
		workflow.GetVersion(r.save, versionWaits, workflow.DefaultVersion, 1) == workflow.DefaultVersion) {
		return
	}
	key := temporal.NewSearchAttributeKeyKeyword(contract.WaitsFor)
	update := key.ValueUnset()
	if kind != "" {
		update = key.ValueSet(kind)
	}
	_ = workflow.UpsertTypedSearchAttributes(r.save, update) // see describe
	r.shown = kind
}

func (r *run) showDetails() { workflow.SetCurrentDetails(r.save, r.text()) }

// text is the details in Markdown.
func (r *run) text() string {
	d := &r.details
	var b strings.Builder
	fmt.Fprintf(&b, "**Turn** `%s`, step %d, %d messages before it, %d tokens so far\n\n", r.claim.Turn, max(d.step, 1), max(r.seq-1, 0), d.tokens)
	if a := r.claim.About; a != nil {
		fmt.Fprintf(&b, "**Agent** `%s`%s%s\n\n", cmp.Or(a.Agent, "orchestrator"), after(" on ", d.model), after(": ", a.Task))
		if a.Parent != "" {
			fmt.Fprintf(&b, "**Parent** %s\n\n", r.link(a.Parent))
		}
	} else if p := workflow.GetInfo(r.save).ParentWorkflowExecution; p != nil {
		fmt.Fprintf(&b, "**Parent** %s\n\n", r.link(p.ID))
	}
	if d.provider != "" {
		fmt.Fprintf(&b, "**Waits for** %s\n\n", code(d.provider))
	}
	if d.runs != "" {
		fmt.Fprintf(&b, "**Runs** %s\n\n", code(d.runs))
	}
	for _, w := range d.waits {
		fmt.Fprintf(&b, "**Waits for** %s\n\n", code(w.text))
	}
	for _, c := range d.children {
		state := "working"
		if c.Ended {
			state = "ended"
		}
		if c.Background {
			state += " in the background"
		}
		fmt.Fprintf(&b, "- **%s** %s, %s%s\n", c.Agent, r.link(c.Thread), state, after(": ", c.Task))
	}
	return b.String()
}

// link leads to a thread's open run.
func (r *run) link(thread string) string {
	return fmt.Sprintf("[%s](/namespaces/%s/workflows/%s)", thread, url.PathEscape(workflow.GetInfo(r.save).Namespace), url.PathEscape(thread))
}

// after is a text behind a separator, or nothing.
func after(separator, text string) string {
	if text == "" {
		return ""
	}
	return separator + code(text)
}

// code shows a text as it is: what a model wrote is no Markdown.
func code(text string) string {
	return "`" + strings.ReplaceAll(agent.Shorten(strings.Join(strings.Fields(text), " "), mostShown, "…"), "`", "'") + "`"
}

// mostShown bounds a text in the details, in bytes.
const mostShown = 300
