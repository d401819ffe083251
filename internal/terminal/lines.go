package terminal

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"
)

// ErrLeft means that the input has ended, or that a person wants to leave.
var ErrLeft = errors.New("left; the turn goes on")

// Lines reads lines as a terminal, which lets people edit them, or a pipe gives them.
type Lines struct {
	in     *bufio.Reader
	show   io.Writer // where a person sees the prompt
	tty    *os.File  // nil if nobody types
	got    chan read
	asking bool
}

type read struct {
	text string
	err  error
}

// NewLines reads in when it is asked for a line, and not before.
func NewLines(in io.Reader, show io.Writer, person bool) *Lines {
	l := &Lines{in: bufio.NewReader(in), show: show, got: make(chan read, 1)}
	if f, ok := in.(*os.File); ok && person {
		l.tty = f
	}
	return l
}

// Forget throws away what was typed so far.
func (l *Lines) Forget() {
	if l.tty != nil {
		flushInput(l.tty)
		_, _ = l.in.Discard(l.in.Buffered()) // no more than is there
	}
}

// restWithin bounds the wait for the end of a pipe.
const restWithin = time.Second

// Rest counts the lines of a pipe that nobody asked for, 0 if it goes on without an end.
func (l *Lines) Rest() (n int) {
	if l.tty != nil || l.asking {
		return 0
	}
	counted := make(chan int, 1)
	go func() {
		lines := 0
		for {
			text, err := l.in.ReadString('\n')
			if strings.TrimSpace(text) != "" {
				lines++
			}
			if err != nil {
				break
			}
		}
		counted <- lines
	}()
	select {
	case n = <-counted:
	case <-time.After(restWithin):
	}
	return n
}

// Next returns the next line, behind a prompt.
func (l *Lines) Next(ctx context.Context, prompt string, interrupts <-chan os.Signal) (string, error) {
	_, _ = io.WriteString(l.show, prompt)
	if !l.asking {
		l.asking = true
		go func() {
			text, err := l.in.ReadString('\n')
			l.got <- read{text, err}
		}()
	}
	select {
	case r := <-l.got:
		l.asking = false
		if r.err != nil && r.text == "" {
			return "", ErrLeft
		}
		return strings.TrimRight(r.text, "\r\n"), nil
	case <-interrupts:
		return "", ErrLeft
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
