package agent

import (
	"encoding/json"
	"testing"
)

func TestNarrowRule(t *testing.T) {
	for _, c := range []struct{ tool, args, want string }{
		{"shell", `{"command":"date -u"}`, "shell(date *)"},
		{"shell", `"{\"command\":\"date\"}"`, "shell(date *)"},
		{"shell", `{"command":"git status --short"}`, "shell(git status *)"},
		{"shell", `{"command":"go test ./..."}`, "shell(go test *)"},
		{"shell", `{"command":"git"}`, ""},
		{"shell", `{"command":"git -c core.pager=x log"}`, ""},
		{"shell", `{"command":"go run ./x"}`, ""},
		{"shell", `{"command":"npm exec x"}`, ""},
		{"shell", `{"command":"date; rm -rf x"}`, ""},
		{"shell", `{"command":"date $(x)"}`, ""},
		{"shell", `{"command":"date\nrm x"}`, ""},
		{"shell", `{"command":"date > x"}`, ""},
		{"shell", `{"command":"bash -c x"}`, ""},
		{"shell", `{"command":"sudo date"}`, ""},
		{"shell", `{"command":"python3 x.py"}`, ""},
		{"shell", `{"command":"find . -delete"}`, ""},
		{"shell", `{"command":"A=b date"}`, ""},
		{"shell", `{"command":"./date"}`, ""},
		{"shell", `{"command":"'date' x"}`, ""},
		{"shell", `{"command":" "}`, ""},
		{"shell", `{"command":7}`, ""},
		{"shell", `no json`, ""},
		{"web_fetch", `{"url":"https://Go.dev/doc"}`, "web_fetch(go.dev)"},
		{"web_fetch", `{"url":"http://127.0.0.1:80/x"}`, "web_fetch(127.0.0.1:80)"},
		{"web_fetch", `{"url":"file:///etc/passwd"}`, ""},
		{"web_fetch", `{"url":"https://u:p@/x"}`, ""},
		{"file_write", `{"path":"a/b"}`, ""},
	} {
		if got := NarrowRule(c.tool, json.RawMessage(c.args)); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.tool, c.args, got, c.want)
		}
	}
}
