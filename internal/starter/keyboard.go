package starter

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// typed is a line that a person has ended with Enter.
type typed struct {
	text string
	// pasted means that at least a part of it was pasted.
	pasted bool
}

// keyboard reads what a person types. On a terminal it reads key by key and
// echoes only while it is asked for a line: a paste of several lines is one line
// of input, and what was typed before a question can be thrown away, all of it.
// Otherwise it reads lines.
type keyboard struct {
	tty  bool
	show io.Writer // where a person sees what they type

	mu      sync.Mutex
	lines   []typed
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
	unbracketPastes = "\x1b[?2004l"
	pasteBegins     = "\x1b[200~"
	pasteEnds       = "\x1b[201~"
)

// keys returns the keyboard; the first call begins to read stdin.
func (a *app) keys() *keyboard {
	a.keysOnce.Do(func() {
		a.keyboard = &keyboard{show: a.stderr, wake: make(chan struct{}, 1)}
		if f, ok := a.stdin.(*os.File); ok && a.asks {
			if restore, err := keyByKey(f); err == nil {
				a.keyboard.tty = true
				_, _ = io.WriteString(a.stderr, bracketPastes)
				a.closers = append(a.closers, func() {
					_, _ = io.WriteString(a.stderr, unbracketPastes)
					restore()
				})
			}
		}
		go a.keyboard.read(a.stdin)
	})
	return a.keyboard
}

func (k *keyboard) read(in io.Reader) {
	buf := make([]byte, 4096)
	for {
		n, err := in.Read(buf)
		k.mu.Lock()
		if k.tty {
			for _, c := range buf[:n] {
				k.key(c)
			}
		} else {
			k.text(buf[:n])
		}
		if err != nil {
			if !k.tty && len(k.line) > 0 {
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

func (k *keyboard) signal() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// text takes a piece of input that is no terminal's.
func (k *keyboard) text(p []byte) {
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
func (k *keyboard) enter() {
	k.lines = append(k.lines, typed{strings.TrimRight(string(k.line), "\r"), k.pasted})
	k.line, k.pasted = nil, false
}

// key takes a byte from a terminal.
func (k *keyboard) key(c byte) {
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
func (k *keyboard) sequence(c byte) {
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
	case pasteBegins:
		k.pasting, k.pasted, k.drop = true, true, false
	case pasteEnds:
		if k.drop {
			k.pasted = false
		}
		k.pasting, k.drop = false, false
	}
	k.escape = nil
}

func (k *keyboard) insert(r rune) {
	if k.drop {
		return
	}
	k.line = utf8.AppendRune(k.line, r)
	k.say(string(r))
}

func (k *keyboard) erase() {
	if len(k.line) == 0 {
		return
	}
	r, n := utf8.DecodeLastRune(k.line)
	k.line = k.line[:len(k.line)-n]
	switch {
	case r == '\n' || r == '\t':
		k.say("\n" + string(k.line))
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
	case wide(r):
		k.say("\b\b  \b\b")
	default:
		k.say("\b \b")
	}
}

// wide reports whether a character takes two columns, near enough for erasing it.
func wide(r rune) bool {
	return r >= 0x1100 && r <= 0x115f || r >= 0x2e80 && r <= 0xa4cf || r >= 0xac00 && r <= 0xd7a3 || r >= 0xf900 && r <= 0xfaff ||
		r >= 0xfe30 && r <= 0xfe6f || r >= 0xff00 && r <= 0xff60 || r >= 0x1f300 && r <= 0x1faff || r >= 0x20000 && r <= 0x3fffd
}

func (k *keyboard) say(s string) {
	if k.echo {
		_, _ = io.WriteString(k.show, clean(s))
	}
}

// forget throws away what was typed or pasted so far, also the rest of a paste
// that is still coming in.
func (k *keyboard) forget(in io.Reader) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f, ok := in.(*os.File); ok && k.tty {
		flushInput(f)
	}
	k.lines, k.line, k.rune, k.escape = nil, nil, nil, nil
	k.pasted, k.drop = k.pasting, k.pasting
}

// next returns the next line, showing prompt and echoing what is typed. errLeft
// means that the input has ended or a person wants to leave.
func (k *keyboard) next(ctx context.Context, prompt string, interrupts <-chan os.Signal) (typed, error) {
	k.mu.Lock()
	_, _ = io.WriteString(k.show, prompt)
	if k.tty && len(k.lines) > 0 { // typed ahead
		_, _ = io.WriteString(k.show, clean(k.lines[0].text)+"\n")
	} else if k.tty {
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
			return typed{}, errLeft
		}
		select {
		case <-k.wake:
		case <-interrupts:
			return typed{}, errLeft
		case <-ctx.Done():
			return typed{}, ctx.Err()
		}
	}
}

// settle is how long a question stands before an answer counts: what was on its
// way to something else is no answer.
const settle = 400 * time.Millisecond

// readLine reads what a person types.
func (t *talk) readLine(ctx context.Context, prompt string) (typed, error) {
	return t.a.keys().next(ctx, prompt, t.a.interrupts)
}

// readFresh is readLine for an answer to a question that has just appeared.
func (t *talk) readFresh(ctx context.Context, prompt string) (typed, error) {
	keys := t.a.keys()
	if err := sleepFor(ctx, settle); err != nil {
		return typed{}, err
	}
	keys.forget(t.a.stdin)
	return keys.next(ctx, prompt, t.a.interrupts)
}
