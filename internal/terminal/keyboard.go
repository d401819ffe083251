package terminal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Line is a line that a person has ended with Enter.
type Line struct {
	Text string
	// Pasted means that at least a part of it was pasted.
	Pasted bool
}

// Keyboard reads what a person types. On a terminal it reads key by key and
// echoes only while it is asked for a line: a paste of several lines is one line
// of input, and what was typed before a question can be thrown away, all of it.
// Otherwise it reads lines.
type Keyboard struct {
	tty  *os.File  // nil if it is not read key by key
	show io.Writer // where a person sees what they type

	mu      sync.Mutex
	lines   []Line
	line    []byte // being typed
	pasted  bool   // line holds pasted text
	pasting bool
	drop    bool   // what is being pasted was thrown away
	escape  []byte // an escape sequence that is not complete
	rune    []byte // a character that is not complete
	cr      bool   // the last key was a carriage return
	echo    bool
	ended   bool
	wake    chan struct{}
}

// Terminals bracket what is pasted if they are asked to.
const (
	bracketPastes   = "\x1b[?2004h"
	UnbracketPastes = "\x1b[?2004l"
	PasteBegins     = "\x1b[200~"
	PasteEnds       = "\x1b[201~"
)

// ErrLeft means that the input has ended, or that a person wants to leave.
var ErrLeft = errors.New("left; the turn goes on")

// NewKeyboard begins to read. A terminal is read key by key if a person can be asked
// there. restore leaves it as it was.
func NewKeyboard(in io.Reader, show io.Writer, person bool) (k *Keyboard, restore func()) {
	k, restore = &Keyboard{show: show, wake: make(chan struct{}, 1)}, func() {}
	if f, ok := in.(*os.File); ok && person {
		if undo, err := keyByKey(f); err == nil {
			k.tty = f
			_, _ = io.WriteString(show, bracketPastes)
			restore = func() {
				_, _ = io.WriteString(show, UnbracketPastes)
				undo()
			}
		}
	}
	go k.read(in)
	return k, restore
}

func (k *Keyboard) read(in io.Reader) {
	buf := make([]byte, 4096)
	for {
		n, err := in.Read(buf)
		k.mu.Lock()
		if k.tty != nil {
			for _, c := range buf[:n] {
				k.key(c)
			}
		} else {
			k.text(buf[:n])
		}
		if err != nil {
			if k.tty == nil && len(k.line) > 0 {
				k.enter()
			}
			k.ended = true
		}
		k.signal()
		k.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (k *Keyboard) signal() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// text takes a piece of input that is no terminal's.
func (k *Keyboard) text(p []byte) {
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			k.line = append(k.line, p...)
			return
		}
		k.line = append(k.line, p[:i]...)
		k.enter()
		p = p[i+1:]
	}
}

// enter ends a line.
func (k *Keyboard) enter() {
	k.lines = append(k.lines, Line{strings.TrimRight(string(k.line), "\r"), k.pasted})
	k.line, k.pasted = nil, false
}

// key takes a byte from a terminal.
func (k *Keyboard) key(c byte) {
	afterCR := k.cr
	k.cr = c == '\r'
	switch {
	case len(k.escape) > 0 || c == 0x1b:
		k.sequence(c)
	case c == '\n' && afterCR:
	case k.pasting && (c == '\r' || c == '\n'):
		k.insert('\n')
	case c == '\r' || c == '\n':
		k.say("\n")
		k.enter()
	case c == 0x7f || c == 0x08:
		k.erase()
	case c == 0x15: // Ctrl-U
		k.line, k.rune, k.pasted = nil, nil, false
		k.say("^U\n")
	case c == 0x04 && len(k.line) == 0 && !k.pasting: // Ctrl-D
		k.ended = true
	case c == '\t':
		k.insert('\t')
	case c < 0x20:
	default:
		k.rune = append(k.rune, c)
		if utf8.FullRune(k.rune) {
			r, _ := utf8.DecodeRune(k.rune)
			k.rune = nil
			if !unicode.IsControl(r) {
				k.insert(r)
			}
		}
	}
}

// sequence takes a byte of an escape sequence. Only those around a paste count.
func (k *Keyboard) sequence(c byte) {
	if c == 0x1b {
		k.escape = []byte{c}
		return
	}
	k.escape = append(k.escape, c)
	if len(k.escape) == 2 && (c == '[' || c == 'O') {
		return
	}
	if len(k.escape) > 2 && k.escape[1] == '[' && (c < 0x40 || c > 0x7e) && len(k.escape) < 32 {
		return
	}
	switch string(k.escape) {
	case PasteBegins:
		k.pasting, k.pasted, k.drop = true, true, false
	case PasteEnds:
		if k.drop {
			k.pasted = false
		}
		k.pasting, k.drop = false, false
	}
	k.escape = nil
}

func (k *Keyboard) insert(r rune) {
	if k.drop {
		return
	}
	k.line = utf8.AppendRune(k.line, r)
	k.say(string(r))
}

func (k *Keyboard) erase() {
	if len(k.line) == 0 {
		return
	}
	r, n := utf8.DecodeLastRune(k.line)
	k.line = k.line[:len(k.line)-n]
	switch {
	case r == '\n' || r == '\t':
		k.say("\n" + string(k.line))
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
	case width.LookupRune(r).Kind() == width.EastAsianWide, width.LookupRune(r).Kind() == width.EastAsianFullwidth:
		k.say("\b\b  \b\b")
	default:
		k.say("\b \b")
	}
}

func (k *Keyboard) say(s string) {
	if k.echo {
		_, _ = io.WriteString(k.show, Clean(s))
	}
}

// Forget throws away what was typed or pasted so far, also the rest of a paste
// that is still coming in.
func (k *Keyboard) Forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tty != nil {
		flushInput(k.tty)
	}
	k.lines, k.line, k.rune, k.escape = nil, nil, nil, nil
	k.pasted, k.drop = k.pasting, k.pasting
}

// Next returns the next line, showing prompt and echoing what is typed.
func (k *Keyboard) Next(ctx context.Context, prompt string, interrupts <-chan os.Signal) (Line, error) {
	k.mu.Lock()
	_, _ = io.WriteString(k.show, prompt)
	if k.tty != nil && len(k.lines) > 0 { // typed ahead
		_, _ = io.WriteString(k.show, Clean(k.lines[0].Text)+"\n")
	} else if k.tty != nil {
		k.echo = true
		k.say(string(k.line))
	}
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		k.echo = false
		k.mu.Unlock()
	}()
	for {
		k.mu.Lock()
		if len(k.lines) > 0 {
			line := k.lines[0]
			k.lines = k.lines[1:]
			k.mu.Unlock()
			return line, nil
		}
		ended := k.ended
		k.mu.Unlock()
		if ended {
			return Line{}, ErrLeft
		}
		select {
		case <-k.wake:
		case <-interrupts:
			return Line{}, ErrLeft
		case <-ctx.Done():
			return Line{}, ctx.Err()
		}
	}
}
