package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/temporaltest"
)

// With keys in a file of home, every part of dev uses them; its web UI is told where
// payloads are decrypted, and its pages alone may ask there.
func TestDevDecryptsForItsWebUI(t *testing.T) {
	u := newUser(t)
	require.NoError(t, os.WriteFile(filepath.Join(u.home, "keys"), []byte("# of tests\n"+temporaltest.KeyA+"\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(u.home, "spool.yaml"), []byte("encryptionKeys: file:keys\n"), 0o600))
	dev, info, _ := u.dev("--codec-port", "0")
	require.NotEmpty(t, info.Codec)

	code, out, errout := u.run("send", "-s", "a", `script: call calculator {"expression":"6*7"} ;; echo it is`)
	require.Equal(t, 0, code, errout)
	assert.Contains(t, out, "42")
	code, out, errout = u.run("history", "a/default")
	require.Equal(t, 0, code, errout)
	assert.NotContains(t, out, "calculator")
	assert.Contains(t, out, "YmluYXJ5L2VuY3J5cHRlZA", "binary/encrypted in base64")

	code, out, errout = u.run("doctor")
	require.Equal(t, 0, code, out+errout)
	assert.Contains(t, out, "2025-01 encrypts")
	assert.NotContains(t, out, temporaltest.KeyA[len("2025-01="):][:8])

	sealed := firstPayload(t, u)
	decode := func(origin string) (string, error) {
		plain, err := converter.NewRemotePayloadCodec(converter.RemotePayloadCodecOptions{Endpoint: codecOf(t, info), ModifyRequest: func(r *http.Request) error {
			r.Header.Set("Origin", origin)
			return nil
		}}).Decode([]*commonpb.Payload{sealed})
		if err != nil {
			return "", err
		}
		return string(plain[0].GetData()), nil
	}
	for _, origin := range []string{info.UI, strings.Replace(info.UI, "127.0.0.1", "localhost", 1)} {
		text, err := decode(origin)
		require.NoError(t, err)
		assert.Contains(t, text, "a/default")
	}
	_, err := decode("http://127.0.0.1:1")
	require.ErrorContains(t, err, "may not use this codec server")

	require.NoError(t, syscall.Kill(info.PIDs.Temporal, syscall.SIGKILL))
	require.Eventually(t, func() bool {
		now, ok := config.ReadLive(u.home)
		return ok && now.PIDs.Temporal != info.PIDs.Temporal
	}, patience, 50*time.Millisecond)
	_, err = decode(info.UI)
	require.NoError(t, err, "it outlives the server")
	require.NoError(t, dev.Process.Signal(syscall.SIGTERM))
	require.NoError(t, dev.Wait())
}

// codecOf is the codec server that the web UI tells its pages.
func codecOf(t *testing.T, info config.DevInfo) string {
	t.Helper()
	r, err := http.Get(info.UI + "/api/v1/settings")
	require.NoError(t, err)
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	var settings struct{ Codec struct{ Endpoint string } }
	require.NoError(t, json.Unmarshal(raw, &settings))
	assert.Equal(t, info.Codec, settings.Codec.Endpoint)
	return settings.Codec.Endpoint
}

// firstPayload is the input of the thread's run, as Temporal has it.
func firstPayload(t *testing.T, u *user) *commonpb.Payload {
	t.Helper()
	code, out, errout := u.run("history", "a/default")
	require.Equal(t, 0, code, errout)
	var h struct {
		Events []struct {
			Attributes struct {
				Input struct {
					Payloads []struct {
						Metadata map[string][]byte
						Data     []byte
					}
				}
			} `json:"workflowExecutionStartedEventAttributes"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &h))
	p := h.Events[0].Attributes.Input.Payloads[0]
	return &commonpb.Payload{Metadata: p.Metadata, Data: p.Data}
}

// Without keys, with wrong ones, and open to other machines without a token, the
// codec server does not start, and says what to do.
func TestCodecServerRefusesToStart(t *testing.T) {
	u := newUser(t)
	run := func(keys string, args ...string) string {
		cmd := u.command(append([]string{"codec-server"}, args...)...)
		cmd.Env = append(cmd.Env, temporaltest.EncryptionKeys(keys))
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		assert.Equal(t, 2, cmd.ProcessState.ExitCode(), "%s", out)
		return string(out)
	}
	assert.Contains(t, run(""), "openssl rand -base64 32")
	secret := temporaltest.KeyA[len("2025-01="):]
	out := run(secret)
	assert.Contains(t, out, `encryptionKeys "****" (from environment SPOOL_ENCRYPTION_KEYS) is not valid`)
	assert.Contains(t, out, "entry 1 is not of the form ID=KEY")
	assert.NotContains(t, out, secret[len(secret)-5:])
	assert.Contains(t, run(temporaltest.KeyA, "--listen", "0.0.0.0:0"), "SPOOL_CODEC_TOKEN")
	assert.Contains(t, run(temporaltest.KeyA, "--listen", "here"), "ADDRESS:PORT")
	assert.Contains(t, run(temporaltest.KeyA, "--origin", "localhost:8233"), "--origin")
}
