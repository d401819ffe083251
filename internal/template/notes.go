package template

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spool-agents/spool/internal/trust"
)

// notesFiles hold what a project says to any agent that works in it; the first that is
// there counts.
var notesFiles = []string{"AGENTS.md", "CLAUDE.md"}

// MostNotes is how many bytes such a file may have.
const MostNotes = 32 << 10

// Notes are what all agents are told of a project.
type Notes struct {
	File  string `json:"file"`
	Bytes int    `json:"bytes"`
	text  string
}

// Notes are those that count; nil if there are none, or nobody has agreed to them.
func (c *Catalog) Notes() *Notes { return c.notes }

// readNotes reads them. They speak to all agents, also to those of the user: so nobody
// is told before a person has agreed to the text.
func (c *Catalog) readNotes(in Folders, book trust.Book) []Warning {
	for _, name := range notesFiles {
		path := filepath.Join(in.Project, name)
		if in.Project == "" || in.Home != "" && trust.Same(in.Project, in.Home) {
			return nil
		}
		file, err := trust.ReadWithin(in.Project, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return []Warning{{File: path, Text: fmt.Sprintf("skipped: %v", err)}}
		case len(file.Raw) > MostNotes:
			return []Warning{{File: path, Text: fmt.Sprintf("skipped: it has more than %d bytes", MostNotes)}}
		}
		offer := trust.Offer{File: file, Agreed: book.Agreed(file), Allows: append([]string{"all agents are told, as part of their instructions:"}, trust.Text(file.Raw)...)}
		c.offers = append(c.offers, offer)
		if !offer.Agreed {
			return []Warning{{File: path, Asks: true, Text: "before you agree to this file, no agent is told what it says; " + trust.Command(in.Project) + " shows it and asks"}}
		}
		c.notes = &Notes{File: path, Bytes: len(file.Raw),
			text: "\n\nThe project that you work in says this to agents, in its " + name + ":\n\n<project>\n" + strings.TrimSpace(string(file.Raw)) + "\n</project>"}
		return nil
	}
	return nil
}

// fingerprintOfNotes changes with the files.
func (in Folders) fingerprintOfNotes() (out string) {
	for _, name := range notesFiles {
		if info, err := os.Stat(filepath.Join(in.Project, name)); err == nil {
			out += fmt.Sprintln(name, info.Size(), info.ModTime().UnixNano())
		}
	}
	return out
}
