package audit

import (
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// lostImages reports messages whose image is gone.
func (r *repairs) lostImages() error {
	gone, err := r.Strings(`SELECT name FROM image_refs WHERE thread_id = ? AND NOT EXISTS (SELECT 1 FROM images i WHERE i.name = image_refs.name) ORDER BY name`, r.t.ID)
	if err != nil || len(gone) == 0 {
		return err
	}
	messages, err := r.Messages(r.t.ID)
	if err != nil {
		return nil //nolint:nilerr // readable has told of it
	}
	for _, name := range gone {
		for _, m := range messages {
			for _, shown := range m.Content.Images() {
				if shown == name {
					r.left(memory.FoundLost, "message %s (seq %d) shows %s%s, which the store does not have", m.ID, m.Seq, agent.ImageScheme, name)
				}
			}
		}
	}
	return nil
}
