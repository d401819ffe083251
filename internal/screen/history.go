package screen

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

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
