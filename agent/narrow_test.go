package agent

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestNarrowRule(t *testing.T) {
	for _, c := range []struct{ tool, args, want string }{
		{"shell", `{"command":"date -u"}`, "shell(date *)"},
		{"shell", `"{\"command\":\"date\"}"`, "shell(date *)"},
		{"shell", `{"command":"grep -rn x ."}`, "shell(grep *)"},
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
	// Programs that run, load or write what an argument or a file of the folder names.
	for _, program := range strings.Fields("ar at awk bash busybox cargo column cp crontab curl dd docker env eval fd file find git go gzip hostname install jq less ln " +
		"lua make man mv nano nice node npm npx openssl patch perl pip psql python3 rg rm rsync ruby screen sed sh sort split sqlite3 ssh strings sudo svn tar tee time " +
		"timeout tmux trap tree uniq unknown vim watch wget xargs xxd yarn zip ./date /bin/date ls=x") {
		if got := NarrowRule("shell", json.RawMessage(`{"command":"`+program+` --version"}`)); got != "" {
			t.Errorf("%s may do more than its name says: %q", program, got)
		}
	}
}
