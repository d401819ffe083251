package rows

import "github.com/spool-agents/spool/memory"

// About is an approval with the calls that it is about.
func (a *Ask) About(calls []*Call) (memory.Approval, error) {
	v, err := a.Approval()
	for _, c := range calls {
		if c.ApprovalID == a.ID {
			v.ToolCalls = append(v.ToolCalls, c.View())
		}
	}
	return v, err
}
