package agent_test

import (
	"strings"
	"testing"

	"github.com/spool-agents/spool/agent"
)

// TestNoURLShowsItsSecrets: parsed or not.
func TestNoURLShowsItsSecrets(t *testing.T) {
	for _, url := range []string{
		"postgres://u:s3cret@h/db", "postgres://u:s3%zzcret@h/db", "postgres://u:s3cret@h:port/db", "postgres://u:s3cret#x@h/db", "postgres://u:s3cret/x@h/db",
		"postgres://u:a@s3cret@h/db", "postgres:u:s3cret@h/db", "postgres://h/db?user=u&password=s3cret", "host=h password=s3cret user=u", "host=h password='s3cret s3cret' user=u",
		"https://h/v1?api-key=s3cret", "https://h/v1?api-version=1&subscription_key=s3cret&x=1", "https://h/v1?sig=s3cret", "https://h?access_token=s3cret#f", "postgres://u:s3cret s3cret@h/db",
	} {
		got := agent.MaskURL(url)
		if strings.Contains(got, "s3cret") || strings.Contains(got, "s3%zz") || !strings.Contains(got, "xxxxx") || !strings.Contains(got, "h") {
			t.Errorf("%s became %s", url, got)
		}
		if strings.Contains(url, " ") {
			continue
		}
		if got := agent.MaskURLs(`Post "` + url + `": no route, ask admin@example.com`); !strings.HasPrefix(url, "postgres:u") && (strings.Contains(got, "s3cret") || !strings.HasSuffix(got, ": no route, ask admin@example.com")) {
			t.Errorf("%s became %s", url, got)
		}
	}
	for _, url := range []string{"sqlite:/data/a@b/x.db", "https://h:8080/v1?api-version=2024-10-21", "postgres://u@h/db?sslmode=require", "memory:", "a text: with x@y"} {
		if got := agent.MaskURL(url); got != url {
			t.Errorf("%s became %s", url, got)
		}
	}
}
