package encryption_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"github.com/spool-agents/spool/internal/encryption"
)

const (
	ui    = "http://localhost:8233"
	token = "a-token-of-tests-only"
)

func serve(t *testing.T, token string) string {
	t.Helper()
	e := encryption.NewEndpoint(load(t, "a="+keyA), token, []string{"codec.example"})
	e.Allow(ui+"/namespaces", "ftp://nobody", "")
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	return s.URL
}

type answer struct {
	StatusCode int
	Header     http.Header
}

// call sends a request with headers as pairs; Host counts as one.
func call(t *testing.T, method, url, body string, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return answer{resp.StatusCode, resp.Header}
}

// The SDK's own client of codec servers encodes and decodes by it.
func TestEndpointSpeaksTemporalsProtocol(t *testing.T) {
	for _, path := range []string{"", "/some/path/"} {
		remote := converter.NewRemotePayloadCodec(converter.RemotePayloadCodecOptions{
			Endpoint: serve(t, token) + path,
			ModifyRequest: func(r *http.Request) error {
				r.Header.Set("Authorization", "Bearer "+token)
				r.Header.Set("X-Namespace", "default")
				return nil
			},
		})
		sealed, err := remote.Encode([]*commonpb.Payload{payload(t, "secret"), payload(t, 2)})
		require.NoError(t, err)
		assert.NotContains(t, string(sealed[0].Data), "secret")
		plain, err := remote.Decode(append(sealed, payload(t, "was plain")))
		require.NoError(t, err)
		assert.Equal(t, `"secret"`, string(plain[0].Data))
		assert.Equal(t, `"was plain"`, string(plain[2].Data))

		_, err = remote.Decode([]*commonpb.Payload{encode(t, load(t, "old="+keyB), payload(t, 1))})
		assert.ErrorContains(t, err, `"old"`)
	}
}

// Pages of other origins, names of others, and who lacks the token are refused,
// before anything is decoded.
func TestEndpointRefuses(t *testing.T) {
	open, locked := serve(t, ""), serve(t, token)
	for _, c := range []struct {
		url    string
		code   int
		header []string
	}{
		{open, http.StatusOK, nil}, // the temporal program
		{open, http.StatusOK, []string{"Origin", ui}},
		{open, http.StatusOK, []string{"Host", "localhost:8234"}},
		{open, http.StatusOK, []string{"Host", "Codec.example"}},
		{open, http.StatusForbidden, []string{"Origin", "http://evil.example"}},
		{open, http.StatusForbidden, []string{"Origin", "http://localhost:8080"}},
		{open, http.StatusForbidden, []string{"Origin", "https://localhost:8233"}},
		{open, http.StatusForbidden, []string{"Origin", "null"}},
		{open, http.StatusMisdirectedRequest, []string{"Host", "evil.example"}},
		{open, http.StatusMisdirectedRequest, []string{"Host", "localhost.evil.example", "Origin", ui}},
		{locked, http.StatusUnauthorized, nil},
		{locked, http.StatusUnauthorized, []string{"Authorization", "Bearer another-token-of-tests"}},
		{locked, http.StatusUnauthorized, []string{"Authorization", token}},
		{locked, http.StatusForbidden, []string{"Authorization", "Bearer " + token, "Origin", "http://evil.example"}},
		{locked, http.StatusOK, []string{"Authorization", "Bearer " + token, "Origin", ui}},
	} {
		resp := call(t, http.MethodPost, c.url+"/decode", `{"payloads":[]}`, c.header...)
		assert.Equal(t, c.code, resp.StatusCode, "%v", c.header)
		if c.code != http.StatusOK && c.code != http.StatusUnauthorized {
			assert.Empty(t, resp.Header.Get("Access-Control-Allow-Origin"))
		}
	}
	assert.Equal(t, http.StatusNotFound, call(t, http.MethodGet, open+"/decode", "").StatusCode)
	assert.Equal(t, http.StatusNotFound, call(t, http.MethodPost, open+"/other", "{}").StatusCode)
	assert.Equal(t, http.StatusBadRequest, call(t, http.MethodPost, open+"/decode", "{").StatusCode)
	huge := `{"payloads":[{"data":"` + strings.Repeat("A", 9<<20) + `"}]}`
	assert.Equal(t, http.StatusBadRequest, call(t, http.MethodPost, open+"/encode", huge).StatusCode)
}

// A browser's preflight is answered for the UI's origin alone, without the token,
// which it cannot carry.
func TestEndpointAnswersPreflights(t *testing.T) {
	url := serve(t, token) + "/decode"
	resp := call(t, http.MethodOptions, url, "", "Origin", ui, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type,x-namespace")
	assert.Equal(t, http.StatusNoContent, resp.StatusCode)
	assert.Equal(t, ui, resp.Header.Get("Access-Control-Allow-Origin"))
	assert.Contains(t, resp.Header.Get("Access-Control-Allow-Headers"), "X-Namespace")
	assert.Contains(t, resp.Header.Get("Access-Control-Allow-Headers"), "Authorization")
	assert.Contains(t, resp.Header.Get("Access-Control-Allow-Methods"), "POST")
	assert.Equal(t, "Origin", resp.Header.Get("Vary"))
	assert.Equal(t, http.StatusForbidden, call(t, http.MethodOptions, url, "", "Origin", "http://evil.example").StatusCode)
}
