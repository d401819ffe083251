package chat

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/exit"
)

// Given is a text of the command line, or what stdin holds for "-".
func (p *Person) Given(stdin io.Reader, text, what string) (string, error) {
	if text == "-" {
		raw, err := ReadText(stdin)
		if err != nil {
			return "", agent.Wrap(err, agent.CodeInvalid, "cannot read the %s from stdin", what)
		}
		if text = strings.TrimRight(string(raw), "\r\n"); strings.TrimSpace(text) == "" {
			return "", exit.Misuse("the %s on stdin is empty", what)
		}
	}
	switch {
	case strings.TrimSpace(text) == "":
		return "", exit.Misuse("the %s is empty: give a text, or - to read it from stdin", what)
	case !utf8.ValidString(text):
		return "", exit.Misuse("the %s is not valid UTF-8", what)
	}
	return text, nil
}

// mostText is more than a request to a model may have, and little enough for any machine.
const mostText = 16 << 20

// ReadText reads a text that a person gives to its end: see agent.WrittenText. What has no
// end, such as /dev/zero, is an error.
func ReadText(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, mostText+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > mostText:
		return nil, fmt.Errorf("it has more than %d MB", mostText>>20)
	}
	return agent.WrittenText(data)
}

// stdinSilence is how long an open pipe may say nothing before a message goes without it.
const stdinSilence = 3 * time.Second

// WithStdin puts what stdin holds behind a text, if it is a file or a pipe. A pipe that
// somebody has left open, and says nothing, is not waited for.
func (p *Person) WithStdin(stdin io.Reader, text string) (string, error) {
	if f, ok := stdin.(*os.File); ok {
		if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice != 0 {
			return text, nil //nolint:nilerr // nothing is there to read
		}
	}
	read := make(chan error, 1)
	in := bufio.NewReader(stdin)
	go func() { _, err := in.Peek(1); read <- err }()
	select {
	case err := <-read:
		if err != nil {
			return text, nil //nolint:nilerr // it has ended
		}
	case <-time.After(stdinSilence):
		p.Progress("stdin is open and says nothing: the message goes without it")
		return text, nil
	}
	raw, err := ReadText(in)
	if err != nil {
		return "", agent.Wrap(err, agent.CodeInvalid, "cannot read stdin, which belongs to the message")
	}
	if more := strings.TrimRight(string(raw), "\r\n"); strings.TrimSpace(more) != "" {
		text += "\n\n" + more
	}
	return text, nil
}
