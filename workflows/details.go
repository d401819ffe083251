package workflows

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/spool-agents/spool/internal/contract"
)

// details is what the Temporal Web UI shows of a turn under way.
type details struct {
	children []contract.DelegationOutput
}

func (d *details) delegated(o contract.DelegationOutput) { d.children = append(d.children, o) }

// describe sets the search attributes, where the namespace has them, and the
// current details of the run. Neither is needed for the turn.
func (r *run) describe() {
	if len(r.claim.Attributes) > 0 && len(r.details.children) == 0 {
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
	var b strings.Builder
	fmt.Fprintf(&b, "**Turn** `%s`, %d messages before it\n\n", r.claim.Turn, max(r.seq-1, 0))
	if p := workflow.GetInfo(r.save).ParentWorkflowExecution; p != nil {
		fmt.Fprintf(&b, "**Parent** `%s`\n\n", p.ID)
	}
	for _, c := range r.details.children {
		mode := ""
		if c.Background {
			mode = " (background)"
		}
		fmt.Fprintf(&b, "- **%s**%s `%s`\n", c.Agent, mode, c.Child)
	}
	workflow.SetCurrentDetails(r.save, b.String())
}
