package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// A user sends an image: the model gets it with the call, and neither the store
// nor Temporal ever holds more than the reference. One that is gone is told in
// words.
func TestImagesAreSentByReference(t *testing.T) {
	t.Parallel()
	s := tt.New(t)
	s.Model.KeepBodies = true
	s.StartWorker()
	var picture bytes.Buffer
	require.NoError(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 300, 300))))
	file := filepath.Join(t.TempDir(), "shot.png")
	require.NoError(t, os.WriteFile(file, picture.Bytes(), 0o600))
	out, code := starter(t, s, "send", "-s", s.Session("s1"), "--image", file, "script: say seen")
	require.Equal(t, 0, code, out)
	data := "data:image/png;base64," + base64.StdEncoding.EncodeToString(picture.Bytes())
	require.Equal(t, []string{"script: say seen", data}, partsSent(t, s))
	m := messages(t, s, s.Thread("s1"))[0]
	require.Regexp(t, `^image:[0-9a-f]{64}\.png$`, m.Content.Parts[1].ImageURL.URL)
	require.Less(t, historyOf(t, s, s.Thread("s1")).bytes, 20_000)
	out, code = starter(t, s, "show", s.Thread("s1"))
	require.Equal(t, 0, code, out)
	require.Contains(t, out, "[image "+m.Content.Parts[1].ImageURL.URL)

	require.NoError(t, os.RemoveAll(filepath.Join(s.Dir, "images")))
	require.NoError(t, os.WriteFile(filepath.Join(s.Work, "in.png"), picture.Bytes(), 0o600))
	require.NoError(t, os.Symlink(file, filepath.Join(s.Work, "out.png")))
	require.NoError(t, os.WriteFile(filepath.Join(s.Work, "text.png"), []byte("just text"), 0o600))
	r := s.Message("s2", "")
	r.Content = agent.Content{Parts: []agent.Part{{Type: "text", Text: "script: say ok"}}}
	for _, url := range []string{m.Content.Parts[1].ImageURL.URL, "file:in.png", "file:" + filepath.Join(s.Work, "in.png"), "file:out.png", "file:../x.png", "file:/etc/passwd", "file:text.png", "https://example.com/a.png"} {
		r.Content.Parts = append(r.Content.Parts, agent.Part{Type: "image_url", ImageURL: &agent.ImageURL{URL: url}})
	}
	sent, err := s.Client.Send(s.Ctx(), r)
	require.NoError(t, err)
	require.Equal(t, "completed", s.Wait(sent).Status)
	got := partsSent(t, s)
	for i, want := range []string{"script: say ok", "cannot be shown", data, data, "cannot be shown", "cannot be shown", "cannot be shown", "is no image", "https://example.com/a.png"} {
		require.Contains(t, got[i], want)
	}

	r.Content.Parts[1].ImageURL.URL, r.MessageID = data, ""
	_, err = s.Client.Send(s.Ctx(), r)
	require.ErrorContains(t, err, "refer to it instead")
	for _, wrong := range []string{filepath.Join(s.Work, "text.png"), filepath.Join(s.Work, "none.png"), s.Work} {
		cmd := exec.Command(tt.Starter(), "send", "--image", wrong, "x")
		cmd.Env = append(cmd.Environ(), s.Env...)
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Equal(t, 2, cmd.ProcessState.ExitCode(), string(out))
	}
	s.Verify()
}

// partsSent are the parts of the last user message of the last model call.
func partsSent(t *testing.T, s *tt.Stack) []string {
	t.Helper()
	records := s.Model.Records()
	var body struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	require.NoError(t, json.Unmarshal(records[len(records)-1].Body, &body))
	var out []string
	for _, m := range body.Messages {
		var parts []agent.Part
		if m.Role != "user" || json.Unmarshal(m.Content, &parts) != nil {
			continue
		}
		out = nil
		for _, p := range parts {
			if p.ImageURL != nil {
				out = append(out, p.ImageURL.URL)
			} else {
				out = append(out, p.Text)
			}
		}
	}
	return out
}
