package starter

import (
	"context"

	"github.com/spool-agents/spool/internal/devstack"
)

// temporalServerCmd runs the temporal program as a server on one file until stdin
// ends, and prints one JSON line when it serves. The programs of a stack and tests
// start it; people use dev.
type temporalServerCmd struct {
	Program string `required:"" placeholder:"PATH" help:"The temporal program."`
	DB      string `name:"db" required:"" placeholder:"FILE" help:"SQLite file of Temporal's data; made if it is not there."`
	Port    int    `required:"" placeholder:"N" help:"Port (0 = a free one); if taken the next free one."`
	UIPort  int    `name:"ui-port" placeholder:"N" help:"Port of the web UI, likewise."`
	NoUI    bool   `help:"Run no web UI."`
	UICodec string `name:"ui-codec-endpoint" placeholder:"URL" help:"Where the web UI has payloads decrypted."`
	Untuned bool   `help:"Keep the server's own settings."`
}

// Run serves until it is interrupted, stdin ends or the program does.
func (t *temporalServerCmd) Run(ctx context.Context, a *app) error {
	return devstack.Server(*t).Run(ctx, a.stdin, a.env, a.Err, a.Document)
}
