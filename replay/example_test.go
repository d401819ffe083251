package replay_test

import (
	"fmt"
	"os"

	"github.com/spool-agents/spool/replay"
)

// A test of your own calls Files with the folder that Record wrote, and fails on an
// error. These are the histories of Spool itself.
func ExampleFiles() {
	keys, err := os.ReadFile("../workflows/testdata/keys")
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(replay.Files(replay.Options{EncryptionKeys: string(keys)}, "../workflows/testdata/histories"))
	// Output: <nil>
}
