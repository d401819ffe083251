package starter

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/internal/llm/llmtest"
)

// write puts a file into the bench's home.
func (b *bench) write(name string, lines ...string) string {
	b.t.Helper()
	path := filepath.Join(b.home, name)
	require.NoError(b.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(b.t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return path
}

// asked are the models that a server was asked for.
func asked(s *llmtest.Server) (names []string) {
	for _, r := range s.Records() {
		names = append(names, r.Model)
	}
	return names
}

// keyed lets a server refuse all keys but one, as providers do.
func keyed(s *llmtest.Server, key string) {
	s.Raw(func(w http.ResponseWriter, r *http.Request, _ []byte) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":{"message":"bad key"}}`))
			return
		}
		_, _ = w.Write([]byte(`{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`))
	})
}

// Each model is asked and shown at the provider that a worker would ask, with where
// that is set and who names the model; keys are never printed.
func TestModelsAreAskedAtTheirProviders(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	own, mistral := llmtest.Run(t), llmtest.Run(t)
	keyed(own, "own-secret-key")
	keyed(mistral, "mistral-secret-key")
	table := b.write("models.yaml", "providers:", "  mistral:", "    baseUrl: "+mistral.URL(), "    apiKeyEnv: MISTRAL_KEY")
	translator := b.write("agents/translator.md", "---", "name: translator", "description: x", "provider: mistral", "model: small", "---", "x")
	behind := b.write("agents/behind.md", "---", "model: big@mistral", "---", "x")
	plain := b.write("agents/plain.md", "---", "provider: mistral", "---", "x")
	b.more = []string{"OPENAI_BASE_URL=" + own.URL(), "OPENAI_API_KEY=own-secret-key", "MISTRAL_KEY=mistral-secret-key", "SPOOL_MODEL=main", "SPOOL_FALLBACK_MODELS=small@mistral,claude@20240620"}
	for _, command := range []string{"models", "doctor"} {
		r := b.run(command)
		for _, want := range []string{
			"main at " + own.URL() + " [environment OPENAI_BASE_URL]",
			"small at " + mistral.URL() + " (provider mistral) [" + table + ":2]",
			"big at " + mistral.URL() + " (provider mistral) [" + table + ":2]",
			"main at " + mistral.URL() + " (provider mistral)",
			"claude@20240620 at " + own.URL(),
		} {
			assert.Contains(t, r.out, want, command)
		}
		assert.NotContains(t, r.out+r.errout, "secret", command)
		assert.NotContains(t, r.out, "NOT ANSWER")
		if command == "models" {
			assert.Equal(t, exit.Done, r.code, r.out+r.errout)
			assert.Contains(t, r.out, "(agent translator, "+translator+":4; fallback, environment SPOOL_FALLBACK_MODELS)")
			assert.Contains(t, r.out, behind+":2")
			assert.Contains(t, r.out, plain+":2")
		}
	}
	assert.ElementsMatch(t, []string{"main", "claude@20240620", "main", "claude@20240620"}, asked(own))
	assert.ElementsMatch(t, []string{"small", "big", "main", "small", "big", "main"}, asked(mistral))
	r := b.run("models", "--json")
	doc := r.json(t)
	assert.Len(t, doc["models"], 5)
	assert.Equal(t, map[string]any{"name": "mistral", "url": mistral.URL(), "source": table + ":2", "keyEnv": "MISTRAL_KEY", "keySet": true, "available": []any{llmtest.Model}}, doc["providers"].([]any)[1])
	assert.Equal(t, []any{}, doc["problems"])
	assert.NotContains(t, r.out, "secret")
}

// An agent that its caller gives its provider is asked there too.
func TestModelsOfAgentsThatTakeTheProviderOfTheirCaller(t *testing.T) {
	b := newBench(t)
	own, other := llmtest.Run(t), llmtest.Run(t)
	b.write("models.yaml", "providers:", "  other: {baseUrl: '"+other.URL()+"'}")
	b.write("agents/orchestrator.md", "---", "provider: other", "model: one", "---", "x")
	b.write("agents/helper.md", "---", "model: two", "---", "x")
	b.more = []string{"OPENAI_BASE_URL=" + own.URL(), "SPOOL_MODEL=main"}
	r := b.run("models")
	assert.Equal(t, exit.Done, r.code, r.out)
	assert.ElementsMatch(t, []string{"main", "two"}, asked(own))
	assert.ElementsMatch(t, []string{"one", "two"}, asked(other))
	assert.Contains(t, r.out, "called by orchestrator")
}

// What a mistyped provider is: nobody is asked, and file and line, what there is and
// what to do are told, by models, doctor, agents.
func TestAProviderThatIsNotSetUp(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	own := llmtest.Run(t)
	b.write("models.yaml", "providers:", "  mistral: {baseUrl: '"+own.URL()+"'}")
	apart := b.write("agents/apart.md", "---", "description: x", "provider: mistal", "---", "x")
	behind := b.write("agents/behind.md", "---", "model: big@mistal", "---", "x")
	b.more = []string{"OPENAI_BASE_URL=" + own.URL(), "SPOOL_MODEL=main", "SPOOL_FALLBACK_MODELS=small@mstral"}
	for command, code := range map[string]int{"models": exit.Failed, "doctor": exit.Unavailable, "agents": exit.Done} {
		r := b.run(command)
		said := r.out + r.errout
		assert.Equal(t, code, r.code, said)
		assert.Contains(t, said, apart+":3", command)
		assert.Contains(t, said, behind+":2", command)
		assert.Contains(t, said, "no provider mistal is set up (set up: mistral)", command)
		assert.Contains(t, said, "or write big@mistal@ if all of that is the model's name", command)
		assert.NotContains(t, said, "; to do: see", command)
		if command != "agents" {
			assert.Contains(t, said, "fallbackModels (from environment SPOOL_FALLBACK_MODELS)", command)
			assert.Contains(t, said, "small@mstral", command)
		}
	}
	assert.ElementsMatch(t, []string{"main", "main"}, asked(own), "nothing that was not meant")

	b.more = []string{"SPOOL_MODEL=main@mistal"}
	r := b.run("models")
	assert.Equal(t, exit.Failed, r.code)
	assert.Contains(t, r.out, "model (from environment SPOOL_MODEL): the model main@mistal names a provider mistal")
	r = b.run("dev")
	assert.Equal(t, exit.Usage, r.code, "no worker would start")
	assert.Contains(t, r.errout, "model (from environment SPOOL_MODEL): the model main@mistal names a provider mistal")
}

// A key that the environment does not have is a problem, also before the provider
// says so.
func TestAProviderWithoutItsKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other := llmtest.Run(t)
	keyed(other, "secret")
	table := b.write("models.yaml", "providers:", "  other: {baseUrl: '"+other.URL()+"', apiKeyEnv: OTHER_KEY}")
	r := b.run("models")
	assert.Equal(t, exit.Failed, r.code, "the scripted model answers, but a provider has no key")
	assert.Contains(t, r.out, table+":2: provider other has no key, as the environment has no OTHER_KEY; to do: set it where the worker is started")
	b.write("agents/a.md", "---", "model: m@other", "---", "x")
	r = b.run("doctor")
	assert.Contains(t, r.out, "provider other has no key, as the environment has no OTHER_KEY")
	assert.Contains(t, r.out, "no key is sent: OTHER_KEY, which provider other ("+table+":2) names is not set in the worker's environment")
	assert.Contains(t, r.out, "to do: set OTHER_KEY where the worker is started")
	b.more = []string{"OTHER_KEY=wrong"}
	r = b.run("models")
	assert.Equal(t, exit.Failed, r.code)
	assert.Contains(t, r.out, "bad key")
	assert.Contains(t, r.out, "to do: check OTHER_KEY, which provider other ("+table+":2) names")
	b.more = []string{"OTHER_KEY=secret"}
	r = b.run("models")
	assert.Equal(t, exit.Done, r.code, r.out)
	assert.Contains(t, r.out, "demo  built in")
}

// A table that cannot be used is reported by all that read it, with its line and
// without what stands in it; the demo model hides nothing.
func TestABrokenTableOfModelsIsReported(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for text, want := range map[string]string{
		"providers:\n  x:\n    baseUrl: http://h/v1\n    apiKey: sk-secret-1": ":4: no table of models: unknown field",
		"providers:\n  x: {baseUrl: 'http://u:sk-secret-2@'}":                 ":2: no table of models: provider x has no baseUrl",
		"providers:\n  x: {baseUrl: 'http://h', apiKeyEnv: sk-secret-3}":      ":2: no table of models: provider x: apiKeyEnv is no name",
		"models:\n  - {match: x, window: 'sk-secret-4":                        "no table of models",
	} {
		path := b.write("models.yaml", text)
		for command, code := range map[string]int{"models": exit.Failed, "models --json": exit.Failed, "doctor": exit.Unavailable, "dev": exit.Usage} {
			r := b.run(strings.Fields(command)...)
			said := r.out + r.errout
			assert.Equal(t, code, r.code, "%s: %s", command, said)
			assert.Contains(t, said, path, command)
			assert.Contains(t, said, want, command)
			assert.NotContains(t, said, "secret", command)
		}
	}
}

// What to do depends on what is wrong, and names the setting that says it.
func TestWhatToDoWithAModelThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	plain, tls := llmtest.Run(t), httptest.NewTLSServer(http.NotFoundHandler())
	defer tls.Close()
	raw := func(status int, body string) string {
		s := llmtest.Run(t)
		s.Raw(func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		})
		return s.URL()
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	for name, c := range map[string]struct {
		url  string
		want []string
	}{
		"wrong key":     {raw(401, `{"error":{"message":"bad key"}}`), []string{"bad key", "check OPENAI_API_KEY"}},
		"unknown model": {raw(404, `{"error":{"message":"no such model"}}`), []string{"check the model's name (environment SPOOL_MODEL)", "the provider lists " + llmtest.Model}},
		"wrong path":    {plain.URL() + "/v2", []string{"check the model's name", "OPENAI_BASE_URL (environment OPENAI_BASE_URL): it must end before /chat/completions"}},
		"a page":        {raw(200, "<html>hello</html>"), []string{"web page", "check OPENAI_BASE_URL"}},
		"refused":       {"http://" + closed.Addr().String(), []string{"start the server, or check host and port in OPENAI_BASE_URL"}},
		"no such host":  {"http://nowhere.invalid/v1", []string{"OPENAI_BASE_URL (environment OPENAI_BASE_URL)"}},
		"certificate":   {tls.URL + "/v1", []string{"certificate is not trusted here"}},
		"no TLS":        {strings.Replace(plain.URL(), "http:", "https:", 1), []string{"write http:// instead of https:// in OPENAI_BASE_URL"}},
		"rate limit":    {raw(429, `{"error":{"message":"slow down"}}`), []string{"slow down", "raise the limit of the key"}},
		"overloaded":    {raw(503, `{"error":{"message":"busy"}}`), []string{"busy", "retry later"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.more = []string{"OPENAI_BASE_URL=" + c.url, "OPENAI_API_KEY=sk-very-secret-key", "SPOOL_MODEL=m"}
			r := b.run("models")
			assert.Equal(t, exit.Failed, r.code)
			_, todo, found := strings.Cut(r.out, "; to do: ")
			require.True(t, found, r.out)
			assert.Contains(t, r.out+todo, c.want[0])
			assert.Contains(t, todo, c.want[len(c.want)-1])
			assert.NotContains(t, r.out+r.errout, "very-secret")
		})
	}
}

// A schema is read however an editor saves it, out of its wrapper, and refused in words.
func TestCase_S01_SchemaFiles(t *testing.T) {
	b := newBench(t)
	file := filepath.Join(b.home, "schema.json")
	for text, want := range map[string]string{
		"\ufeff{\"name\":\"x\",\r\n\"schema\":{\"type\":\"object\"}}":                                  "",
		"\xff\xfe{\x00\"\x00t\x00y\x00p\x00e\x00\"\x00:\x00\"\x00a\x00r\x00r\x00a\x00y\x00\"\x00}\x00": "",
		`{"a":1}`:     "demands nothing",
		"\ufeff \r\n": "the file is empty", `{"type":"object",}`: "is not JSON: invalid character '}'",
		"{\"title\":\"\xe9\"}": "not valid UTF-8, see line 1",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		r := b.run("send", "--detach", "--schema", file, "hello")
		if want == "" {
			assert.NotEqual(t, exit.Usage, r.code, r.errout)
			continue
		}
		assert.Equal(t, exit.Usage, r.code, r.errout)
		assert.Contains(t, r.errout, want)
	}
}
