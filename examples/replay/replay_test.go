// A test for CI: can this build go on with turns that an older one began? Record histories
// with `starter history THREAD`, or replay.Record, keep them here, and run `go test`.
package replay

import (
	"testing"

	"github.com/spool-agents/spool/replay"
)

func TestHistoriesReplay(t *testing.T) {
	if err := replay.Files(replay.Options{}, "testdata/histories"); err != nil {
		t.Fatal(err)
	}
}
