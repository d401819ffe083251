package activities

import (
	"fmt"

	"github.com/spool-agents/spool/agent"
)

// A conversation keeps its images when its model changes, so a model that takes none
// would refuse every later turn. It reads their names instead. That it takes
// none is kept with the thread: the next steps do not ask again, on whatever worker
// they run.

// noImages ends an attempt whose model takes no images; the next one tells it of them
// in words.
type noImages struct {
	model   string
	refusal error // the provider's; nil if the table of models says so
}

func (e *noImages) Error() string { return e.model + " cannot see images: it is called without them" }

func (e *noImages) Unwrap() error { return e.refusal }

func (e *noImages) warnings() []agent.Warning {
	why := "the table of models says so"
	if e.refusal != nil {
		why = agent.Shorten(e.refusal.Error(), 500, "")
	}
	return []agent.Warning{{Code: agent.WarnNoImages, Message: fmt.Sprintf(
		"%s cannot see images: it reads their names only. To have them seen, go on with a model that takes images. (%s)", e.model, why)}}
}
