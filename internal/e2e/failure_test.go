package e2e

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// failure is what makes a model call fail with a code.
type failure struct {
	status int
	body   string
	silent bool   // nothing is ever sent
	model  string // "" = the one of the settings
	form   bool   // an answer by a schema is asked for
	todo   string
}

var failures = map[string]failure{
	agent.ModelRateLimited:    {status: 429, body: `{"error":{"message":"no credit","code":"insufficient_quota"}}`, todo: "raise the quota"},
	agent.ModelOverloaded:     {status: 503, body: `{"error":{"message":"busy"}}`, todo: "retry later"},
	agent.ModelBrokenStream:   {body: event(`{"content":"half"}`, "null"), todo: "check the network"},
	agent.ModelIdleTimeout:    {silent: true, todo: "raise SPOOL_IDLE_TIMEOUT"},
	agent.ModelUnreachable:    {model: "fake@dead", todo: "start the server, or check host and port in baseUrl of provider dead"},
	agent.ModelAuth:           {status: 401, body: `{"error":{"message":"bad key"}}`, todo: "check OPENAI_API_KEY"},
	agent.ModelUnknown:        {status: 404, body: `{"error":{"message":"no such model"}}`, todo: "`starter models` lists"},
	agent.ModelBadResponse:    {body: "<html>Please log in</html>", todo: "check OPENAI_BASE_URL"},
	agent.ModelAnswerInvalid:  {body: event(`{"content":"free text"}`, `"stop"`), form: true, todo: "make the schema simpler"},
	agent.ModelBadRequest:     {status: 400, body: `{"error":{"message":"temperature must be 1"}}`, todo: "change what it names"},
	agent.ModelContextTooLong: {status: 400, body: `{"error":{"message":"too many","code":"context_length_exceeded"}}`, todo: "start a new conversation"},
	agent.ModelCutOff:         {body: event(`{}`, `"length"`), todo: "raise maxTokens"},
	agent.ModelContentFilter:  {body: event(`{}`, `"content_filter"`), todo: "change the message"},
}

// failing fails as the last message says.
func failing(w http.ResponseWriter, r *http.Request, body []byte) {
	var q struct{ Messages []agent.Message }
	_ = json.Unmarshal(body, &q) // what it cannot read is no case
	for _, m := range q.Messages {
		f, ok := failures[m.Content.String()]
		switch {
		case !ok:
		case f.silent:
			<-r.Context().Done()
		default:
			w.WriteHeader(max(f.status, 200))
			_, _ = io.WriteString(w, f.body)
		}
	}
}

// failAll sends a message for each code and returns how their turns ended.
func failAll(t *testing.T, s *tt.Stack) map[string]spool.Reply {
	t.Helper()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	models(t, s, "providers:\n  dead: {baseUrl: 'http://"+closed.Addr().String()+"/v1'}\n")
	s.Model.Raw(failing)
	sent := map[string]spool.Reply{}
	for code, f := range failures {
		m := s.Message(strings.ReplaceAll(code, "_", "-"), code)
		if m.Model = f.model; f.form {
			m.AnswerSchema = json.RawMessage(form)
		}
		r := send(t, s, m)
		sent[code] = r
	}
	for code, r := range sent {
		sent[code] = s.Wait(r)
	}
	return sent
}

// Whatever a model call fails with for good, the turn's error names the model, its
// provider and what to do, and its code once.
func TestAll_FinalFailuresSayWhatToDo(t *testing.T) {
	t.Parallel()
	codes := make([]string, 0, len(failures))
	for code := range failures {
		codes = append(codes, code)
	}
	require.ElementsMatch(t, agent.ModelCodes(), codes)
	s := tt.New(t)
	s.StartWorker("SPOOL_RETRY_FOR=50ms", "SPOOL_IDLE_TIMEOUT=1500ms")
	host := strings.TrimSuffix(strings.TrimPrefix(s.Model.URL(), "http://"), "/v1")
	for code, r := range failAll(t, s) {
		at := host
		if failures[code].model != "" {
			at = "dead"
		}
		require.Equal(t, "failed", r.Status, code)
		require.Equal(t, code, r.ErrorCode, r.Error)
		require.True(t, strings.HasPrefix(r.Error, "fake at "+at+" "), r.Error)
		require.NotContains(t, r.Error, "model call failed", code)
		_, todo, found := strings.Cut(r.Error, ". To do: ")
		require.True(t, found, r.Error)
		require.Contains(t, todo, failures[code].todo, code)
	}
	s.Verify()
}

// A failure is told once by each command that tells it, with its code once.
func TestAFailureIsToldOnce(t *testing.T) {
	s := begin(t, "SPOOL_RETRY_FOR=50ms")
	once := func(text, code string) {
		t.Helper()
		require.Equal(t, 1, strings.Count(text, "To do: "), text)
		require.Equal(t, 1, strings.Count(text, code+": fake at "), text)
		require.Equal(t, 1, strings.Count(text, code), text)
	}
	const bad = "script: fail 400 x9 say never"
	out := says(t, s, 1, "send", "-s", s.Session("s1"), bad)
	once(out, "bad_request")
	require.Contains(t, out, "failed; see: ")
	out, progress, code := starterApart(t, s, "send", "--json", "-s", s.Session("s2"), bad)
	require.Equal(t, 1, code, progress)
	once(progress, "bad_request")
	var r spool.Reply
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Equal(t, "bad_request", r.ErrorCode)
	require.NotContains(t, r.Error, "bad_request")
	for _, command := range []string{"show", "trace"} {
		out, _, code = starterApart(t, s, command, s.Thread("s1"))
		require.Zero(t, code)
		once(out, "bad_request")
	}
	chat := starterCommand(t, s, "chat", "-s", s.Session("s3"))
	chat.Stdin = strings.NewReader(bad + "\n")
	said, err := chat.CombinedOutput()
	require.ErrorContains(t, err, "exit status 1")
	once(string(said), "bad_request")
	again, code := starter(t, s, "send", "-s", s.Session("s4"), "--message-id", "m", bad)
	require.Equal(t, 1, code, again)
	again, code = starter(t, s, "send", "-s", s.Session("s4"), "--message-id", "m", bad)
	require.Equal(t, 1, code, again)
	once(again, "bad_request")
	// A provider that is overloaded is no matter of Temporal.
	out = says(t, s, 1, "send", "-s", s.Session("s5"), "script: fail 503 x9 after 1ms say never")
	require.Equal(t, 1, strings.Count(out, "overloaded: fake at "), out)
	require.Equal(t, 1, strings.Count(out, "To do: retry later"), out)
	require.NotContains(t, out, "Temporal")
}

// A models.yaml that cannot be used stops each program that would use it: it says
// where, what is wrong and what to do.
func TestABrokenTableOfModelsStopsItsUsers(t *testing.T) {
	s := stack(t)
	table := filepath.Join(s.Dir, "models.yaml")
	require.NoError(t, os.WriteFile(table, []byte("models:\n  - {match: x, windw: 5}\n"), 0o600))
	for _, c := range []struct {
		program string
		args    []string
		code    int
	}{
		{tt.Worker(), nil, 2},
		{tt.Starter(), []string{"dev", "--temporal", s.Server.Address, "--web-port", "0"}, 2},
		{tt.Starter(), []string{"send", "--store", "file:" + t.TempDir(), "hi"}, 2},
		{tt.Starter(), []string{"chat", "--store", "memory:"}, 2},
		{tt.Starter(), []string{"models"}, 1},
		{tt.Starter(), []string{"doctor"}, 1},
	} {
		cmd := exec.Command(c.program, c.args...)
		cmd.Env = append(cmd.Environ(), s.Env...)
		said, err := cmd.CombinedOutput()
		what := filepath.Base(c.program) + " " + strings.Join(c.args, " ")
		require.Equal(t, c.code, cmd.ProcessState.ExitCode(), "%s: %v: %s", what, err, said)
		for _, part := range []string{table + ":2: no table of models: ", "windw", "mend"} {
			require.Contains(t, string(said), part, what)
		}
	}
	// A message is safe meanwhile, and answered once the file is mended.
	out := says(t, s, 5, "send", "-s", s.Session("s1"), "--detach", "script: say mended")
	require.Contains(t, out, "saved, but not running: no worker polls the task queue")
	require.NoError(t, os.Remove(table))
	s.StartWorker()
	require.Equal(t, "mended", s.Ask("s1", "script: say mended").Response)
}

// A namespace that the server does not have is named by whatever needs it, with what
// makes it.
func TestAMissingNamespaceIsNamed(t *testing.T) {
	s := begin(t)
	s.Ask("s1", "script: say hi")
	out := says(t, s, 1, "doctor", "--temporal-namespace", "nowhere")
	for _, part := range []string{"the server has no namespace nowhere", "TEMPORAL_NAMESPACE, flag --temporal-namespace", "temporal operator namespace create nowhere"} {
		require.Contains(t, out, part)
	}
	out = says(t, s, 5, "send", "-s", s.Session("s2"), "--temporal-namespace", "nowhere", "script: say later")
	const why = "the Temporal server has no namespace nowhere: name another one (TEMPORAL_NAMESPACE), or make it with `temporal operator namespace create nowhere`"
	require.Contains(t, out, "saved, but not running: "+why+"; it runs when")
	w := s.SpawnWorker("TEMPORAL_NAMESPACE=nowhere")
	w.Ends(t, "a missing namespace")
	require.Contains(t, w.Log(), "worker: "+why)
	says(t, s, 0, "doctor")
}
