package archive_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/archive"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/memorytest/processtest"
	"github.com/spool-agents/spool/memory/sessionfile"
	"github.com/spool-agents/spool/memory/sqlite"
)

func TestMain(m *testing.M) {
	processtest.Main(m, map[string]processtest.Job{"export": exportAsNobody})
}

// exportAsNobody exports into a folder as a user who may not write there, and says
// what it is told.
func exportAsNobody(args []string) error {
	ctx := context.Background()
	s, err := sqlite.OpenMemory(ctx, sqlite.Options{})
	if err != nil {
		return err
	}
	sent, err := s.Send(ctx, memorytest.Request("s1", "m"))
	if err = errors.Join(err, memorytest.RunTurns(ctx, s, sent.ThreadID), processtest.BecomeNobody()); err != nil {
		return err
	}
	_, err = archive.Export(ctx, s, sessionfile.Folder{Dir: args[0]}, archive.Owner{}, "s1", sessionfile.EventOptions{})
	fmt.Println(agent.CodeOf(err), err)
	return s.Close()
}
