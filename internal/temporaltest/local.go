package temporaltest

import (
	"os"
	"path/filepath"
	"sync"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
)

// local is the server of a test program's examples, which have no testing.TB.
var local struct {
	sync.Mutex
	dir    string
	server *Server
	client client.Client
}

// Local connects to a Temporal server that all examples of a test
// program share. It panics if there is none. End it with StopLocal.
func Local(logger sdklog.Logger) client.Client {
	local.Lock()
	defer local.Unlock()
	if local.client != nil {
		return local.client
	}
	err := Programs(filepath.Join(Root(), "bin")) // of make build
	if err != nil {
		panic(err)
	}
	if local.dir, err = os.MkdirTemp("", "spool-example-"); err != nil {
		panic(err)
	}
	if local.server, err = startServer("0", []string{"--db", filepath.Join(local.dir, "temporal.db")}); err != nil {
		panic(err)
	}
	if local.client, err = client.Dial(client.Options{HostPort: local.server.Address, Logger: logger}); err != nil {
		panic(err)
	}
	return local.client
}

// StopLocal ends the server that Local has started, if it did.
func StopLocal() {
	local.Lock()
	defer local.Unlock()
	if local.client != nil {
		local.client.Close()
	}
	if local.server != nil {
		local.server.stop()
	}
	_ = os.RemoveAll(local.dir)
}
