package filestore

import (
	"context"
	"slices"

	"github.com/spool-agents/spool/agent"
)

// images is what is known of the files of images.
type images struct {
	// kept are those of the journal whose files were written or found.
	kept map[string]bool
	said string // the last failure that was reported
}

// imagesChanged notes that the files of images have to be compared with the
// journal.
func (f *files) imagesChanged() {
	f.mu.Lock()
	f.staleImages = true
	f.mu.Unlock()
	f.changed(nil)
}

// writeImages makes the files of images those of the journal. A file that the
// journal did not know, such as one that a damaged session file refers to, stays.
func (f *files) writeImages() error {
	f.mu.Lock()
	stale := f.staleImages
	f.staleImages = false
	f.mu.Unlock()
	if !stale {
		return nil
	}
	err := f.compareImages()
	if err == nil {
		f.images.said = ""
		return nil
	}
	f.mu.Lock()
	f.staleImages = true
	f.mu.Unlock()
	if f.images.said != err.Error() { // not with every try
		f.images.said = err.Error()
		f.report(err)
	}
	return err
}

func (f *files) compareImages() error {
	ctx := context.Background()
	want, err := f.journal.ImageNames(ctx)
	if err != nil {
		return err
	}
	have, err := f.folder.ImageNames()
	if err != nil {
		return err
	}
	kept := map[string]bool{}
	for _, name := range want {
		kept[name] = true
		if slices.Contains(have, name) {
			continue
		}
		data, err := f.journal.Image(ctx, name)
		if agent.CodeOf(err) == agent.CodeNotFound {
			continue // removed meanwhile, which is noted
		}
		if err != nil {
			return err
		}
		if _, err := f.folder.SaveImage(name, data); err != nil {
			return err
		}
	}
	for name := range f.images.kept {
		if !kept[name] {
			if _, err := f.folder.RemoveImage(name); err != nil {
				return err
			}
		}
	}
	f.images.kept = kept
	return nil
}
