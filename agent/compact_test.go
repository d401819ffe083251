package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// What OpenAI's o200k and cl100k vocabularies make of these texts (counted once):
// the estimate is near enough to decide.
func TestEstimateTokens(t *testing.T) {
	for _, c := range []struct {
		name, text      string
		o200k, cl100k   int
		lowest, highest float64 // of the estimate, as parts of the nearer count
	}{
		{"words", strings.Repeat("word ", 1000), 1001, 1001, 0.9, 1.1},
		{"German", strings.Repeat("Der schnelle braune Fuchs springt über den faulen Hund, während die Übungsaufgaben größtenteils unerledigt bleiben. ", 20), 581, 641, 0.8, 1.2},
		{"Russian", strings.Repeat("Быстрая коричневая лиса прыгает через ленивую собаку, пока упражнения остаются невыполненными. ", 20), 562, 1001, 0.8, 1.2},
		{"Chinese", strings.Repeat("敏捷的棕色狐狸跳过懒狗，而练习大部分仍未完成。系统会自动保存所有消息。", 20), 560, 900, 0.8, 1.2},
		{"Japanese", strings.Repeat("素早い茶色の狐はのろまな犬を飛び越え、練習問題はほとんど終わっていない。", 20), 680, 1020, 0.8, 1.2},
		{"emoji", strings.Repeat("great job 🎉🚀 well done 👍 ", 20), 181, 241, 0.8, 1.2},
		{"a listing", strings.Repeat("-rw-r--r--  1 root root   4096 Nov 28 01:13 internal/llm/openai/fault_test.go\n", 100), 3300, 3300, 0.75, 1.2},
		{"numbers", strings.Repeat("2024-05-06,17.25,true,\"ok\",192.168.0.1\n", 100), 2200, 2200, 0.75, 1.2},
		{"one letter", strings.Repeat("a", 4000), 500, 500, 0.8, 1.4},
		{"a line", strings.Repeat("-", 4000), 62, 62, 0.8, 1.5},
	} {
		got := float64(EstimateTokens(c.text))
		if got < c.lowest*float64(min(c.o200k, c.cl100k)) || got > c.highest*float64(max(c.o200k, c.cl100k)) {
			t.Errorf("%s: %.0f, counted %d and %d", c.name, got, c.o200k, c.cl100k)
		}
	}
	if EstimateTokens("") != 0 || EstimateTokens("\xff\xfe") == 0 {
		t.Error("the empty text is free, and bytes are not")
	}
}

// batch is a reply with n calls and their results, each of about size tokens.
func batch(id string, n, size int) []Message {
	m := []Message{{Role: RoleAssistant, Content: NullContent()}}
	for i := range n {
		call := fmt.Sprintf("%s%d", id, i)
		m[0].ToolCalls = append(m[0].ToolCalls, NewCall(call, "read", `{"path":"x"}`))
		m = append(m, Message{Role: RoleTool, ToolCallID: call, Content: Text(strings.Repeat("word ", size))})
	}
	return m
}

func said(role Role, text string) Message { return Message{Role: role, Content: Text(text)} }

// FAULTS B4: a cut is never inside a batch, and what no reply has answered stays.
func TestFault_B4_CutPointKeepsBatchesWhole(t *testing.T) {
	m := append([]Message{said(RoleUser, "go")}, batch("a", 2, 100)...) // 1..3
	m = append(m, batch("b", 3, 100)...)                                // 4..7
	m = append(m, batch("c", 2, 100)...)                                // 8..10
	m = append(m, said(RoleUser, "steered"))                            // 11
	all := RequestTokens(ModelRequest{Messages: m})
	for keep, want := range map[int]int{0: 8, 200: 8, 400: 8, 700: 4, all - MessageTokens(m[0]): 1, all: 0} {
		if got := CutPoint(m, keep); got != want {
			t.Errorf("keep %d: cut at %d, want %d", keep, got, want)
		}
	}
	for keep := range 1200 {
		if at := CutPoint(m, keep); at < len(m) && m[at].Role == RoleTool {
			t.Fatalf("keep %d: the cut at %d is inside a batch", keep, at)
		}
	}
	answered := []Message{said(RoleUser, "a"), said(RoleAssistant, "b"), said(RoleUser, "c")}
	if got := CutPoint(answered, 0); got != 2 {
		t.Errorf("the new message must stay: cut at %d", got)
	}
	if got := CutPoint([]Message{said(RoleUser, "only")}, 0); got != 0 {
		t.Errorf("a first message must stay: cut at %d", got)
	}
}

// FAULTS B6: messages are shortened at characters, and arguments stay JSON.
func TestFault_B6_FitMessagesCutsAtCharacters(t *testing.T) {
	args, _ := json.Marshal(map[string]any{"path": "a.txt", "content": strings.Repeat("grün 🎉 ", 4000), "n": 3})
	m := []Message{
		said(RoleUser, strings.Repeat("größer 🎉 ", 3000)), said(RoleUser, "short"),
		{Role: RoleAssistant, Content: NullContent(), ToolCalls: []Call{NewCall("1", "file_write", string(args))}},
	}
	for _, room := range []int{60000, 5000, 1000, 301, 50} {
		fitted, left := FitMessages(m, room)
		total := 0
		for _, f := range fitted {
			total += MessageTokens(f)
			if !utf8.ValidString(f.Content.Value) || strings.Contains(f.Content.Value, "\uFFFD") {
				t.Fatalf("room %d: cut inside a character", room)
			}
		}
		if fitted[1].Content.Value != "short" {
			t.Errorf("room %d: a short message was changed", room)
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(fitted[2].ToolCalls[0].Function.Arguments), &got); err != nil || got["path"] != "a.txt" {
			t.Errorf("room %d: arguments %.80s, %v", room, fitted[2].ToolCalls[0].Function.Arguments, err)
		}
		if room >= 300 && total > room+room/10 {
			t.Errorf("room %d: %d tokens", room, total)
		}
		if (left != nil) != (room < 60000) {
			t.Errorf("room %d: bytes left out: %v", room, left)
		}
		if left != nil && !strings.Contains(fitted[0].Content.Value, fmt.Sprintf("[… %d bytes left out", left[0])) {
			t.Errorf("room %d: nothing says so", room)
		}
	}
	if len(m[0].Content.Value) < 30000 || m[2].ToolCalls[0].Function.Arguments != string(args) {
		t.Error("the input was changed")
	}
}

// A request for a summary, and the summary without a model, keep to their room
// whatever is in the messages.
func TestSummaryRequestsFit(t *testing.T) {
	m := append([]Message{said(RoleUser, "go \x00\xff")}, batch("a", 40, 500)...)
	r := SummaryRequest(m, 3000)
	if n := RequestTokens(ModelRequest{Messages: r}); n > 4500 {
		t.Errorf("%d tokens", n)
	}
	if text := r[1].Content.Value; !strings.HasPrefix(text, SummaryPrefix) || !utf8.ValidString(text) || !strings.Contains(text, "calls read") {
		t.Errorf("%.100s", text)
	}
	digest := DigestMessages(m, 200)
	if n := EstimateTokens(digest); n > 260 || !strings.Contains(digest, "earlier messages are left out") || !utf8.ValidString(digest) {
		t.Errorf("%d tokens: %s", n, digest)
	}
}
