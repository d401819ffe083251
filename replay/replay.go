// Package replay keeps the histories of threads and runs them through this build's
// workflow code: a test in CI that says whether a new build can go on with turns that
// an older one began.
//
//	// once, against a running Spool
//	err := replay.Record(ctx, client, "testdata/histories", "s1/default")
//
//	// in a test
//	err := replay.Files(replay.Options{}, "testdata/histories")
package replay

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/encryption"
	"github.com/spool-agents/spool/workflows"
)

// Record writes the histories of all runs of some threads to a folder, which it makes:
// one file each, named after thread and run. A history of an open run grows; record it
// when its turn has ended. The files hold ids, names of tools and short summaries of
// calls, encrypted if the worker encrypts.
func Record(ctx context.Context, c *spool.Client, dir string, threads ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return agent.Wrap(err, agent.CodeInvalid, "histories cannot be kept in %s", dir)
	}
	for _, thread := range threads {
		runs, err := c.Runs(ctx, thread)
		if err != nil {
			return err
		}
		for _, run := range runs {
			h, err := c.History(ctx, thread, run.RunID)
			if err != nil {
				return err
			}
			file := filepath.Join(dir, url.PathEscape(thread)+"."+run.RunID+".json")
			if err := os.WriteFile(file, h, 0o644); err != nil {
				return agent.Wrap(err, agent.CodeInvalid, "the history of %s cannot be kept", thread)
			}
		}
	}
	return nil
}

// Options of a replay; the zero value is for histories that are not encrypted.
type Options struct {
	// EncryptionKeys are the keys of encrypted histories, as the setting of that name
	// has them; docs/encryption.md.
	EncryptionKeys string
	// Keys are such keys as programs of this module have read them already.
	Keys encryption.Keys
}

// Files replays histories, and all *.json files of folders, on this build. The error
// joins what is wrong with each; there has to be at least one file.
func Files(o Options, paths ...string) error {
	var all []error
	err := Each(o, func(_ string, err error) { all = append(all, err) }, paths...)
	return errors.Join(append(all, err)...)
}

// Each is Files that says of each file, as soon as it is replayed, what is wrong with it;
// nil = nothing. Its own error means that nothing was replayed.
func Each(o Options, replayed func(file string, err error), paths ...string) error {
	files, err := histories(paths)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return agent.Errorf(agent.CodeInvalid, "there is no history to replay in %q: Record, or `starter history THREAD > FILE`, writes one", paths)
	}
	keys := o.Keys
	if o.EncryptionKeys != "" {
		if keys, err = encryption.Load(o.EncryptionKeys); err != nil {
			return agent.Wrap(err, agent.CodeInvalid, "the keys of the histories")
		}
	}
	for _, f := range files {
		replayed(f, file(keys, f))
	}
	return nil
}

// histories are the files that are named, or stand in folders that are.
func histories(paths []string) (files []string, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, agent.Wrap(err, agent.CodeInvalid, "there is no history")
		case err != nil:
			return nil, agent.Wrap(err, agent.CodeInvalid, "cannot read the history")
		case info.IsDir():
			found, err := filepath.Glob(filepath.Join(path, "*.json"))
			if err != nil {
				return nil, agent.Wrap(err, agent.CodeInvalid, "cannot read the folder %s", path)
			}
			slices.Sort(found)
			files = append(files, found...)
		default:
			files = append(files, path)
		}
	}
	return files, nil
}

// file replays one history.
func file(keys encryption.Keys, path string) error {
	raw, err := os.Open(path)
	if err != nil {
		return agent.Wrap(err, agent.CodeInvalid, "cannot read the history")
	}
	defer raw.Close()
	history, err := client.HistoryFromJSON(raw, client.HistoryJSONOptions{})
	if err != nil || len(history.GetEvents()) == 0 {
		return agent.Errorf(agent.CodeInvalid, "%s is no history: `starter history THREAD > FILE` writes one", path)
	}
	var o client.Options
	keys.ApplyToWorker(&o)
	r, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{DataConverter: o.DataConverter, FailureConverter: o.FailureConverter})
	if err != nil {
		return err
	}
	workflows.Register(r)
	return agent.Wrap(r.ReplayWorkflowHistory(nil, history), agent.CodeInvalid, "%s: this build cannot continue this run", path)
}
