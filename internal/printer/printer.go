// Package printer says what commands return: as one JSON document, or as text for
// people.
package printer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/terminal"
)

// Printer writes results to Out, and to Err what happens meanwhile.
type Printer struct {
	JSON bool
	// Name is the program, as a person types it.
	Name string
	// Width is that of the terminal that Out is, 0 = it is none.
	Width int
	Out   *Writer
	Err   io.Writer
}

// Show prints a result: the document with --json, else what text prints.
func (p *Printer) Show(doc any, text func()) error {
	if p.JSON {
		return p.Document(doc)
	}
	text()
	return nil
}

// Document prints a JSON document as one line.
func (p *Printer) Document(doc any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(doc); err != nil {
		return err
	}
	_, err := p.Out.Write(terminal.VisibleJSON(b.Bytes()))
	return err
}

// Print writes a line of result. No text in it gives orders to the terminal, also ids
// and names, which a web server may have made up.
func (p *Printer) Print(format string, args ...any) { line(p.Out, format, args) }

// Progress writes a line to stderr, likewise.
func (p *Printer) Progress(format string, args ...any) { line(p.Err, format, args) }

// line quotes errors, which name files as somebody called them: a name begins no line.
func line(w io.Writer, format string, args []any) {
	for i, arg := range args {
		if err, ok := arg.(error); ok {
			args[i] = errorText(err)
		}
	}
	_, _ = io.WriteString(w, terminal.Clean(fmt.Sprintf(format, args...))+"\n") // Writer keeps the error
}

// errorText is an error in one line, or one for each of those that are joined in it.
func errorText(err error) string {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var lines []string
		for _, one := range several.Unwrap() {
			lines = append(lines, errorText(one))
		}
		return strings.Join(lines, "\n")
	}
	return terminal.Visible(agent.MaskPasswords(err.Error()))
}

// Writer lets several goroutines write whole lines, and keeps the first error.
type Writer struct {
	mu  sync.Mutex
	to  io.Writer
	err error
}

// NewWriter writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{to: w} }

// Write passes p on in one piece.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.to.Write(p)
	if w.err == nil {
		w.err = err
	}
	return n, err
}

// Failed is the first error of a write.
func (w *Writer) Failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Plural is a number of things.
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
