package screen

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textarea"
	"charm.land/lipgloss/v2"

	"github.com/spool-agents/spool/internal/terminal"
)

// newText is a text to type into, of any length.
func newText() *textarea.Model {
	t := textarea.New()
	t.Prompt, t.ShowLineNumbers, t.EndOfBufferCharacter, t.CharLimit = "", false, ' ', 0
	t.DynamicHeight, t.MinHeight, t.MaxHeight, t.MaxContentHeight = true, 1, 8, 1<<20
	t.KeyMap.InsertNewline = key.NewBinding(key.WithKeys("alt+enter", "ctrl+j", "shift+enter"))
	t.KeyMap.Paste.SetEnabled(false) // the terminal's own paste says that it is one
	plain := textarea.StyleState{Placeholder: lipgloss.NewStyle().Faint(true)}
	t.SetStyles(textarea.Styles{Focused: plain, Blurred: plain})
	t.SetVirtualCursor(false)
	t.Focus()
	return &t
}

type input struct {
	*textarea.Model
	past   *history
	pastes map[string]string // what stands for a long paste -> the paste
	pasted bool              // at least a part of it was pasted
	names  []string          // completions to choose from
}

// longPaste is how many lines of a paste are shown as a name.
const longPaste = 8

// paste takes what was pasted: always text, never a command.
func (in *input) paste(text string) {
	text = pasted(text)
	if n := strings.Count(text, "\n") + 1; n > longPaste || strings.Contains(text, "\t") {
		name := fmt.Sprintf("[paste %d: %d lines]", len(in.pastes)+1, n)
		in.pastes[name] = text
		text = name
	}
	in.pasted = true
	in.InsertString(text)
}

// said is what was typed, with pastes in place of their names.
func (in *input) said() string {
	text := in.Value()
	for name, whole := range in.pastes {
		text = strings.ReplaceAll(text, name, whole)
	}
	return strings.TrimSpace(text)
}

// pasted is what was pasted, safe for a terminal and with lines that end as here.
func pasted(text string) string {
	return terminal.Clean(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n"))
}

// clear empties the line; what stood there is in the history.
func (in *input) clear() {
	in.past.add(in.said())
	in.Reset()
	in.pastes, in.pasted, in.names = map[string]string{}, false, nil
}

// recall shows what was typed before (-1) or after (1).
func (in *input) recall(by int) {
	if text, ok := in.past.move(by, in.said()); ok {
		in.SetValue(text)
		in.MoveToEnd()
	}
}

// word is what stands before the cursor since the last blank.
func (in *input) word() string {
	before := in.before()
	return before[strings.LastIndex(before, " ")+1:]
}

// before is what stands in the line before the cursor.
func (in *input) before() string {
	return string([]rune(strings.Split(in.Value(), "\n")[in.Line()])[:in.Column()])
}

// history is what was typed, in this and in earlier sessions. Nobody else may read its file.
type history struct {
	file  string // "" = nothing is kept
	lines []string
	at    int    // what is shown, len(lines) = the draft
	draft string // what was being typed
}

const mostHistory = 1000

func openHistory(home string) *history {
	h := &history{}
	if home == "" {
		return h
	}
	h.file = filepath.Join(home, "chat_history")
	f, err := os.Open(h.file)
	if err != nil {
		return h
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var text string
		if json.Unmarshal(lines.Bytes(), &text) == nil { // a line that a crash has cut is left out
			h.lines = append(h.lines, text)
		}
	}
	if n := len(h.lines); n > 2*mostHistory {
		h.lines = h.lines[n-mostHistory:]
		h.rewrite()
	}
	h.at = len(h.lines)
	return h
}

func (h *history) rewrite() {
	var b strings.Builder
	for _, text := range h.lines {
		raw, _ := json.Marshal(text) // texts can always be written
		b.Write(append(raw, '\n'))
	}
	next := h.file + ".new"
	if os.WriteFile(next, []byte(b.String()), 0o600) == nil {
		_ = os.Rename(next, h.file) // else it stays as it is
	}
}

// add keeps a text, and returns to the draft. That the file cannot be written hinders nobody.
func (h *history) add(text string) {
	if text = strings.TrimSpace(text); text != "" && (len(h.lines) == 0 || h.lines[len(h.lines)-1] != text) {
		h.lines = append(h.lines, text)
		h.keep(text)
	}
	h.at, h.draft = len(h.lines), ""
}

func (h *history) keep(text string) {
	if h.file == "" || os.MkdirAll(filepath.Dir(h.file), 0o700) != nil {
		return
	}
	f, err := os.OpenFile(h.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	raw, _ := json.Marshal(text)
	_, _ = f.Write(append(raw, '\n'))
	_ = f.Close()
}

// move goes back (-1) or forth (1) from what is shown now; ok is false at the end.
func (h *history) move(by int, now string) (text string, ok bool) {
	to := h.at + by
	if to < 0 || to > len(h.lines) {
		return "", false
	}
	if h.at == len(h.lines) {
		h.draft = now
	}
	if h.at = to; to == len(h.lines) {
		return h.draft, true
	}
	return h.lines[to], true
}
