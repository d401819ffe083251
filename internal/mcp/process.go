package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spool-agents/spool/internal/tool"
)

const (
	// longestMessage bounds one message of a server: a result of 64 MB, written
	// as JSON, fits.
	longestMessage = 96 << 20
	stderrTail     = 2 << 10
	// politeness is how long a server may take to end by itself, and again after
	// SIGTERM, before it is killed.
	politeness = time.Second
)

// process is a server that speaks over stdin and stdout. It runs under a
// supervisor, so that nothing of it outlives this process.
type process struct {
	*tool.Supervised
	stdin    io.WriteCloser
	messages *io.PipeReader
	drained  chan struct{} // closed when stderr has been read to its end

	mu   sync.Mutex
	tail []byte // of stderr
	end  sync.Once
}

// startProcess starts a server. said gets what it writes that is no message.
func startProcess(c ServerConfig, env func(string) string, said func(string)) (*process, error) {
	if c.Apart {
		if err := os.MkdirAll(c.Dir, 0o700); err != nil {
			return nil, err
		}
	}
	if info, err := os.Stat(c.Dir); c.Dir != "" && (err != nil || !info.IsDir()) {
		return nil, fmt.Errorf("the folder %s, in which it is to be started, is not there", c.Dir)
	}
	environ := serverEnv(c, env)
	path, err := lookPath(c, environ)
	if err != nil {
		return nil, err
	}
	stdout, out := io.Pipe()
	stderr, errs := io.Pipe()
	cmd := &exec.Cmd{Dir: c.Dir, Env: environ, Stdout: out, Stderr: errs}
	p := &process{drained: make(chan struct{})}
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.Supervised, err = tool.StartSupervised(cmd, append([]string{path}, c.Args...)...); err != nil {
		return nil, err
	}
	var messages *io.PipeWriter
	p.messages, messages = io.Pipe()
	go func() {
		err := copyMessages(messages, stdout, func(line string) { p.say(line, said) })
		messages.CloseWithError(err)
		stdout.CloseWithError(err)
	}()
	go func() {
		r := bufio.NewReaderSize(stderr, 8<<10)
		for {
			line, err := r.ReadSlice('\n') // or as much as the buffer holds
			if len(line) > 0 {
				p.say(string(line), said)
			}
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				close(p.drained)
				return
			}
		}
	}()
	go func() {
		<-p.Exited()
		_, _ = out.Close(), errs.Close()
	}()
	return p, nil
}

// say keeps the last of what a server said, for errors.
func (p *process) say(text string, said func(string)) {
	p.mu.Lock()
	p.tail = append(p.tail, text...)
	if len(p.tail) > stderrTail {
		p.tail = append([]byte(nil), p.tail[len(p.tail)-stderrTail:]...)
	}
	p.mu.Unlock()
	said(text)
}

// last is the gist of what the server said before it ended.
func (p *process) last() string {
	select {
	case <-p.drained:
	case <-time.After(200 * time.Millisecond):
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	text := string(p.tail)
	if _, whole, more := strings.Cut(text, "\n"); more && len(text) == stderrTail {
		text = whole // it began in the middle of a line
	}
	return gist(text)
}

// stop ends the server: first politely, in the way the protocol says.
func (p *process) stop() {
	p.end.Do(func() {
		_ = p.stdin.Close()
		_ = p.messages.Close()
		select {
		case <-p.Exited():
		case <-time.After(politeness):
		}
		p.Stop(politeness)
	})
}

func serverEnv(c ServerConfig, env func(string) string) []string {
	var out []string
	for _, name := range tool.PassedOn {
		if v := env(name); v != "" && c.Env[name] == "" {
			out = append(out, name+"="+tool.PassOn(name, v))
		}
	}
	for name, v := range c.Env {
		out = append(out, name+"="+v)
	}
	return out
}

// lookPath finds the command in the PATH that the server gets.
func lookPath(c ServerConfig, environ []string) (string, error) {
	if strings.ContainsRune(c.Command, filepath.Separator) {
		path := c.Command
		if !filepath.IsAbs(path) {
			path = filepath.Join(c.Dir, path)
		}
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("the command %s is not there", c.Command)
		}
		return path, nil
	}
	for _, v := range environ {
		list, ok := strings.CutPrefix(v, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			path := filepath.Join(dir, c.Command)
			if info, err := os.Stat(path); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 && filepath.IsAbs(path) {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("the command %s is not installed on the worker's machine (not found in PATH)", c.Command)
}

// copyMessages copies lines that are messages of the protocol. Others go to said:
// servers print greetings and logs to stdout although they must not, some as JSON. A
// message that is too long becomes an error answer to its call.
func copyMessages(to io.Writer, from io.Reader, said func(string)) error {
	r := bufio.NewReaderSize(from, 64<<10)
	for {
		line, whole, err := readLine(r)
		switch text := bytes.TrimSpace(line); {
		case len(text) == 0:
		case !whole:
			answer, ok := tooLong(line)
			if !ok {
				return fmt.Errorf("the server sent a message of more than %d MB", longestMessage>>20)
			}
			if _, werr := to.Write(answer); werr != nil {
				return werr
			}
		case !isMessage(text):
			said(string(text) + "\n")
		default:
			if _, werr := to.Write(append(exactly(text), '\n')); werr != nil {
				return werr
			}
		}
		if err != nil {
			return err
		}
	}
}

// isMessage reports whether a line is a message, or a batch of them.
func isMessage(text []byte) bool {
	type message struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  string          `json:"method"`
		Result  json.RawMessage `json:"result"`
		Error   json.RawMessage `json:"error"`
	}
	batch := make([]message, 1)
	into := any(&batch[0])
	if text[0] == '[' {
		into = &batch
	}
	if json.Unmarshal(text, into) != nil || len(batch) == 0 {
		return false
	}
	return !slices.ContainsFunc(batch, func(m message) bool {
		id := len(m.ID) > 0 && strings.IndexByte("{[tf", m.ID[0]) < 0
		answer := id && (m.Result != nil || m.Error != nil)
		return m.Version != "2.0" || (m.ID != nil && !id) || (m.Method == "" && !answer)
	})
}

// readLine reads a line; of one that is too long it keeps the head and the tail,
// and whole is false.
func readLine(r *bufio.Reader) (line []byte, whole bool, err error) {
	whole = true
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > longestMessage {
			whole = false
			line = append(line[:1024:1024], line[len(line)-1024:]...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, whole, err
		}
	}
}

// The id of an answer stands before its result or at the very end.
var (
	idFirst = regexp.MustCompile(`^\s*\{(?:"jsonrpc":\s*"2\.0",\s*)?"id":\s*(\d+)`)
	idLast  = regexp.MustCompile(`"id":\s*(\d+)\s*(?:,\s*"jsonrpc":\s*"2\.0"\s*)?\}\s*$`)
)

// tooLong makes an error answer of the rest of an answer that is too long.
func tooLong(line []byte) ([]byte, bool) {
	m := idFirst.FindSubmatch(line)
	if m == nil {
		m = idLast.FindSubmatch(line)
	}
	if m == nil {
		return nil, false
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"the answer has more than %d MB, which is too much; ask for less"}}`+"\n",
		m[1], longestMessage>>20), true
}
