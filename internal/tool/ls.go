package tool

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool/schema"
)

//go:embed ls.md
var lsDoc string

// maxEntries bounds what ls, glob and grep list.
const maxEntries = 1000

type lsArgs struct {
	Path string `json:"path" jsonschema:"Directory, relative to the workspace root."`
}

// Ls lists a directory.
func Ls() agent.Tool {
	spec := quick("ls", lsDoc, string(schema.Of[lsArgs]()), 30*time.Second)
	return fileTool(spec, func(a lsArgs) string { return a.Path }, (*workspace).ls)
}

func (w *workspace) ls(_ context.Context, _ string, a lsArgs) (string, error) {
	p, err := w.find(a.Path, toRead)
	if err != nil {
		return "", err
	}
	defer p.close()
	folder, entries, err := w.list(p)
	if errors.Is(err, syscall.ENOTDIR) {
		return "", &toolError{agent.ErrInvalidInput, p.shown + " is a file; use file_read to read it"}
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = folder.Close() }()
	if len(entries) == 0 {
		return "(the directory is empty)", nil
	}
	var b strings.Builder
	for i, e := range entries {
		if i == maxEntries {
			fmt.Fprintf(&b, "[… %d more entries; use glob to narrow them down]\n", len(entries)-i)
			break
		}
		switch {
		case e.IsDir():
			fmt.Fprintf(&b, "%s/\n", shown(e.Name()))
		case e.Type()&fs.ModeSymlink != 0:
			target, _ := folder.Readlink(e.Name())
			fmt.Fprintf(&b, "%s -> %s\n", shown(e.Name()), shown(target))
		default:
			size := int64(0)
			if info, err := e.Info(); err == nil {
				size = info.Size()
			}
			fmt.Fprintf(&b, "%s  %d bytes\n", shown(e.Name()), size)
		}
	}
	return b.String(), nil
}

func (w *workspace) list(p place) (*os.Root, []fs.DirEntry, error) {
	folder, err := w.enter(p)
	if err != nil {
		return nil, nil, naming(p.shown, err)
	}
	entries, err := fs.ReadDir(folder.FS(), ".")
	if err != nil {
		return nil, nil, naming(p.shown, errors.Join(err, folder.Close()))
	}
	return folder, entries, nil
}

// joinPath joins slash paths as fs.FS writes them.
func joinPath(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}
