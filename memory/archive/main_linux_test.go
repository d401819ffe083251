package archive_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory/archive"
	"github.com/spool-agents/spool/memory/memorytest"
	"github.com/spool-agents/spool/memory/memorytest/processtest"
	"github.com/spool-agents/spool/memory/sessionfile"
	"github.com/spool-agents/spool/memory/sqlite"
)

// readOnlyEnv makes the test binary export into the folder that it names, as a
// user who may not write there, and say what it is told.
const readOnlyEnv = "SPOOL_ARCHIVE_TEST_READONLY"

func TestMain(m *testing.M) {
	dir := os.Getenv(readOnlyEnv)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := exportAsNobody(context.Background(), dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func exportAsNobody(ctx context.Context, dir string) error {
	s, err := sqlite.OpenMemory(ctx, sqlite.Options{})
	if err != nil {
		return err
	}
	sent, err := s.Send(ctx, memorytest.Request("s1", "m"))
	if err = errors.Join(err, memorytest.RunTurns(ctx, s, sent.ThreadID), processtest.BecomeNobody()); err != nil {
		return err
	}
	_, err = archive.Export(ctx, s, sessionfile.Folder{Dir: dir}, archive.Owner{}, "s1", sessionfile.EventOptions{})
	fmt.Println(agent.CodeOf(err), err)
	return s.Close()
}
