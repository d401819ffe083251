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
	// Slips, of which nothing is known but that they hold a password.
	for _, slip := range []string{
		"postgres:/u:s3cret@h", "postgres//u:s3cret@h", "postgresql:u:s3cret@h/db", "postgres:///u:s3cret@h", "postgres:u:s3cret@h", "u:s3cret@h/db",
		"//u:s3cret@h", ":s3cret@h", "postgres;//u:s3cret@h", `postgres:\\u:s3cret@h`, "postgres:// u:s3cret@h", "postgres://u:s3 cret@h", "POSTGRES:/u:s3cret@h",
		"postgres://u:s3cret@@h", "postgres://u:s3@cret@h", "postgres://u:s3cret/h", "postgres:/u:s3cret", "redis:/u:s3cret@h", "postgres:u@v:s3cret@h",
	} {
		if got := agent.MaskURL(slip); strings.Contains(got, "s3") || strings.Contains(got, "cret") || !strings.Contains(got, "xxxxx") {
			t.Errorf("%s became %s", slip, got)
		}
		text := `thread id "` + slip + `" is not valid, ask admin@example.com; folder /srv/u/` + slip + ` does not exist: 12:30`
		if got := agent.MaskPasswords(text); !strings.ContainsAny(slip, " ") && (strings.Contains(got, "cret") || !strings.HasSuffix(got, " does not exist: 12:30") || !strings.Contains(got, "admin@example.com")) {
			t.Errorf("%s became %s", text, got)
		}
	}
	for _, url := range []string{"http://[::1]:8080/x", "http://h:8080?a=b", "https://h:443", "postgres://h:5432/db", "file:/a/b:c", "sqlite:/data/a@b/x.db", "https://h:8080/v1?api-version=2024-10-21", "postgres://u@h/db?sslmode=require", "memory:", "a text: with x@y"} {
		if got := agent.MaskURL(url); got != url {
			t.Errorf("%s became %s", url, got)
		}
	}
}

// TestNoTextShowsAKey: what providers and gateways answer to a wrong key, which need
// not be the one that we know.
func TestNoTextShowsAKey(t *testing.T) {
	for _, c := range []struct{ text, secret string }{
		{"Incorrect API key provided: sk-abc123DEF456ghi789xyz. You can find your API key at https://platform.openai.com/account/api-keys.", "abc123"},
		{"Incorrect API key provided: sk-proj-********************************************3xyz. You can find", "3xyz"},
		{"Incorrect API key provided: sk-abcd…wxyz.", "wxyz"},
		{"Incorrect API key provided: abcdefgh1234.", "abcdefgh1234"},
		{"Incorrect API key provided: AbcdEfgh.", "AbcdEfgh"},
		{"Authentication Fails, Your api key: ****5678 is invalid", "5678"},
		{`{"error":{"message":"invalid x-api-key: sk-ant-api03-Zz9-_yY8","type":"authentication_error"}}`, "Zz9"},
		{"x-api-key: 0123456789abcdef0123456789abcdef", "0123456789abcdef"},
		{"<p>Header <b>api-key: 8f14e45fceea167a5a36dedd4bea2543</b> is not valid</p>", "8f14e45f"},
		{"api-key=8f14e45fceea167a5a36dedd4bea2543", "8f14e45f"},
		{"API key not valid. Please pass a valid API key. AIzaSyA-1234567890_abcdefghijklmnopqrst", "AIzaSyA"},
		{"https://generativelanguage.googleapis.com/v1beta/models?key=AIzaSyA1234567890abcdefghijklmnopqrstu", "AIzaSyA"},
		{"GET /v1/chat?key=plainsecret1 HTTP/1.1", "plainsecret1"},
		{"upstream rejected Authorization: Bearer gsk_abcDEF0123456789ghi (401)", "abcDEF"},
		{"invalid token: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl", "eyJ"},
		{"Bearer 4f2a9c1be77d is unknown", "4f2a9c1be77d"},
		{"authorization: Basic dXNlcjpwYXNzd29yZDE=", "dXNlcjp"},
		{"proxy-authorization: basic dXNlcjpwYXNzd29yZDE=", "dXNlcjp"},
		{`{"api_key":"k3yk3yk3y","detail":"no"}`, "k3yk3yk3y"},
		{`{\"apiKey\":\"k3yk3yk3y\"}`, "k3yk3yk3y"},
		{"Incorrect API key provided: xai-abc. See docs; xai-ABCDEF0123456789", "ABCDEF"},
		{"API key 'q1w2e3r4t5y6u7i8' does not exist", "q1w2e3r4"},
		{"invalid api key q1w2e3r4t5y6u7i8o9p0", "q1w2e3r4"},
		{"the key hf_AbCdEfGhIjKlMnOpQrSt is revoked", "AbCdEfGh"},
		{"AKIAIOSFODNN7EXAMPLE is not authorized", "IOSFODNN7"},
		{"token nvapi-abcdEFGH1234_-x expired", "abcdEFGH"},
		{"user:\tsecret=hunter22", "hunter22"},
		{"ya29.a0AfH6SMBx-1234567890 has expired", "a0AfH6"},
	} {
		got := agent.MaskSecrets(c.text)
		if strings.Contains(got, c.secret) || !strings.Contains(got, "xxxxx") {
			t.Errorf("%s became %s", c.text, got)
		}
	}
	for _, c := range []string{"key 8f14e45fceea167a5a36dedd4bea2543 refused", "refused: AbCdEf0123456789AbCdEf0123456789==", "no user for tok-8f14e45fceea167a5a36"} {
		if got := agent.MaskTokens(c); strings.Contains(got, "8f14e45f") || strings.Contains(got, "AbCdEf") {
			t.Errorf("%s became %s", c, got)
		}
	}
	for _, text := range []string{
		"You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY)"[:60],
		"API key: missing", "the api-key header is missing", "Bearer authentication is required", "max_tokens: 100000 is too large", "unexpected token: expected",
		"The model gpt-4o-mini-2024-07-18 does not exist", "request id req_011CSHoEeqs5C35K2UUqR7Fy", "Authorization: required", "use a task-based-approach-12345", "a passage about sk-learn",
		"maximum context length is 128000 tokens", "please sign in with your password",
	} {
		if got := agent.MaskSecrets(text); got != text {
			t.Errorf("%s became %s", text, got)
		}
	}
	for _, text := range []string{"no access to claude-3-5-sonnet-20241022", "request id req_011CSHoEeqs5C35K2UUqR7Fy", "9b2c1f0e-1111-4222-8333-444455556666"} {
		if got := agent.MaskTokens(text); got != text {
			t.Errorf("%s became %s", text, got)
		}
	}
}
