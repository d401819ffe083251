// Package images finds the images that messages refer to, and keeps as files what
// tools return and models are not shown.
package images

import (
	"context"
	"os"
	"path/filepath"

	"github.com/spool-agents/spool/agent"
)

// Store is what of a store is needed here; see memory.Imager.
type Store interface {
	Image(ctx context.Context, name string) ([]byte, error)
}

// Finder reads kept images: those of a store, and those of a folder, in which they
// were kept before stores did. Its methods are safe for concurrent use.
type Finder struct {
	Store Store
	// Dir is that folder; "" = there is none. It is only read.
	Dir string
}

// Image returns the bytes of a kept image; one that is nowhere is CodeNotFound.
func (f Finder) Image(ctx context.Context, name string) ([]byte, error) {
	data, err := f.Store.Image(ctx, name)
	if agent.CodeOf(err) != agent.CodeNotFound || f.Dir == "" || !agent.CheckImageName(name) {
		return data, err
	}
	old, readErr := os.ReadFile(filepath.Join(f.Dir, name))
	if readErr != nil {
		return nil, err
	}
	// A file that was changed is not what the message showed.
	if is, checkErr := agent.ImageName(old); checkErr != nil || is != name {
		return nil, err
	}
	return old, nil
}
