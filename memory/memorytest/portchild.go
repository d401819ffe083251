package memorytest

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// portChildEnv makes a test binary act as another process of a port.
const portChildEnv = "SPOOL_PORT_TEST_CHILD"

// The keys that other processes write to.
const (
	childKey   = "shared"
	childCount = "count"
)

// PortChild runs what the suite wants other processes to do and ends the
// process. In any other process it does nothing. Call it first in TestMain.
func PortChild(open func(location string) (memory.AtomicPort[PortItem], error)) {
	if os.Getenv(portChildEnv) == "" {
		return
	}
	p, err := open(os.Args[1])
	if err == nil {
		err = childAppends(p, os.Args[2], os.Args[3], os.Args[4])
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", agent.CodeOf(err), err)
		os.Exit(1)
	}
	os.Exit(0)
}

// childAppends appends the items from..to of a name to the shared key, each in
// one unit with a counter, and prints the id of each when it is acknowledged.
func childAppends(p memory.AtomicPort[PortItem], name, from, to string) error {
	first, err := strconv.Atoi(from)
	if err != nil {
		return err
	}
	last, err := strconv.Atoi(to)
	if err != nil {
		return err
	}
	for _, it := range numbered(name, last)[first:] {
		err := p.Update(context.Background(), func(b memory.Batch[PortItem]) error {
			if _, err := b.Append(childKey, it); err != nil {
				return err
			}
			n, err := b.Len(childKey)
			if err != nil {
				return err
			}
			return b.Set(childCount, []PortItem{{N: int64(n)}})
		})
		if err != nil {
			return err
		}
		fmt.Println(it.ID)
	}
	return nil
}

// child starts another process on the same data; it is killed when the case ends.
func (e *portEnv) child(name, from, to string, env ...string) *Process {
	e.Helper()
	return StartProcess(e.test, append([]string{portChildEnv + "=append"}, env...), e.location, name, from, to)
}
