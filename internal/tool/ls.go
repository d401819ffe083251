package tool

import (
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/spool-agents/spool/agent"
)

//go:embed ls.md
var lsDoc string

// maxEntries bounds what ls, glob and grep list.
const maxEntries = 1000

type lsArgs struct {
	Path string `json:"path"`
}

// Ls lists a directory.
func Ls() agent.Tool {
	spec := readOnly("ls", lsDoc, `{"type":"object","properties":{
		"path":{"type":"string","description":"Directory, relative to the workspace root."}},
		"required":["path"],"additionalProperties":false}`, 30*time.Second)
	check := func(_ context.Context, r agent.ToolRun, a lsArgs) error { return inside(r, a.Path) }
	return checked(spec, check, func(_ context.Context, r agent.ToolRun, a lsArgs) agent.ToolResult {
		return inWorkspace(r, func(w *workspace) (string, error) { return w.ls(a.Path) })
	})
}

func (w *workspace) ls(dir string) (string, error) {
	path, err := w.rel(dir)
	if err != nil {
		return "", err
	}
	info, err := w.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", &toolError{agent.ErrInvalidInput, path + " is a file; use file_read to read it"}
	}
	entries, err := fs.ReadDir(w.FS(), path)
	if err != nil {
		return "", err
	}
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
			target, _ := w.Readlink(joinPath(path, e.Name()))
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

// joinPath joins slash paths as fs.FS writes them.
func joinPath(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}
