package devstack

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spool-agents/spool/agent"
)

const (
	// serverRelease is how long a server that is dying may hold its file.
	serverRelease = 5 * time.Second
	// retention is how long closed workflows are kept. Temporal's default of one
	// day would empty its web UI over a weekend.
	retention = 90 * 24 * time.Hour
	// begun in a lock file means that no server has served the database yet.
	begun = "begun"
)

type serverDB struct {
	path  string
	lock  *os.File
	isNew bool
}

// openServerDB claims a file. Temporal makes its tables only in a file that is not
// there, so one that a server has begun and never served is removed.
func openServerDB(ctx context.Context, path string) (*serverDB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", path, err)
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // one file has one lock, whatever links lead to it
	}
	asked := time.Now()
	lock, holder, err := LockFile(ctx, path+".lock", serverRelease)
	if err != nil {
		return nil, err
	}
	if lock == nil {
		return nil, agent.Errorf(agent.CodeConflict, "%s is in use by another Temporal server (of process %s): stop that one, or give another --home", path, holder)
	}
	if time.Since(asked) > 20*time.Millisecond { // a server has just died: its ports are closed last
		time.Sleep(200 * time.Millisecond)
	}
	db := &serverDB{path: path, lock: lock, isNew: strings.HasSuffix(holder, begun)}
	if db.isNew {
		for _, name := range []string{path, path + "-wal", path + "-shm"} {
			if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
				return nil, agent.Wrap(err, agent.CodeUnavailable, "cannot begin the database of Temporal anew")
			}
		}
	} else if _, err := os.Stat(path); os.IsNotExist(err) {
		db.isNew = true
	}
	if db.isNew {
		note(lock, begun)
		syscall.Umask(0o077) // histories hold what people wrote
	}
	return db, nil
}

// served makes a new database keep closed workflows, and notes that it is whole.
func (db *serverDB) served(ctx context.Context, address string) error {
	err := until(ctx, func() error {
		c, err := client.DialContext(ctx, client.Options{HostPort: address, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
		if err != nil || !db.isNew {
			return err
		}
		defer c.Close()
		_, err = c.WorkflowService().UpdateNamespace(ctx, &workflowservice.UpdateNamespaceRequest{
			Namespace: client.DefaultNamespace, Config: &namespace.NamespaceConfig{WorkflowExecutionRetentionTtl: durationpb.New(retention)},
		})
		return err
	})
	if err == nil {
		note(db.lock, "")
	}
	return err
}

// LockFile takes the lock of a file, which ends with the last process that has it.
// It tries for as long as wait; without the lock, the file is nil. What the file said
// is returned too: who has, or last had, the lock.
func LockFile(ctx context.Context, path string, wait time.Duration) (*os.File, string, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, "", agent.Wrap(err, agent.CodeUnavailable, "cannot open %s", path)
	}
	var said string
	var locked bool
	for deadline := time.Now().Add(wait); ; time.Sleep(20 * time.Millisecond) {
		if locked, err = tryLock(f); err != nil || locked || ctx.Err() != nil || time.Now().After(deadline) {
			break
		}
	}
	if err == nil {
		var raw []byte
		raw, err = io.ReadAll(io.LimitReader(f, 64))
		said = string(bytes.TrimSpace(raw))
	}
	if err != nil {
		_ = f.Close()
		return nil, "", agent.Wrap(err, agent.CodeUnavailable, "cannot lock %s", path)
	}
	if !locked {
		_ = f.Close()
		return nil, said, nil
	}
	note(f, "")
	return f, said, nil
}

// tryLock takes a lock that ends with the process; false means that another has it.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}

// note writes into a lock file whose it is, and more. Nothing depends on a pid.
func note(f *os.File, more string) {
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt(fmt.Appendf(nil, "%d %s\n", os.Getpid(), more), 0)
	}
}
