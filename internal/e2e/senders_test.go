package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/remote"
	tt "github.com/spool-agents/spool/internal/temporaltest"
	"github.com/spool-agents/spool/memory"
)

// Three hundred senders at once are none too many for one user of a web server, by
// the API and by the Go client.
func TestAll_ManySendersAtOnce(t *testing.T) {
	s := stack(t)
	web := s.StartWeb()
	api := func(name string) (status int, body string) {
		doc, err := json.Marshal(s.Message(name, "script: say hi"))
		require.NoError(t, err)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+"/api/v1/messages", bytes.NewReader(doc))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+tt.WebToken)
		r.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer res.Body.Close()
		raw, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(raw)
	}
	client, err := remote.New(web.URL, tt.WebToken)
	require.NoError(t, err)
	const senders = 300
	refused := make([]string, senders)
	var all sync.WaitGroup
	for i := range senders {
		all.Go(func() {
			if i%2 == 0 {
				if status, body := api(fmt.Sprint("api", i)); status != http.StatusAccepted {
					refused[i] = fmt.Sprint(status, body)
				}
			} else if _, err := client.Send(t.Context(), s.Message(fmt.Sprint("go", i), "script: say hi")); err != nil {
				refused[i] = err.Error()
			}
		})
	}
	all.Wait()
	require.Equal(t, make([]string, senders), refused)
	threads, err := s.Client.Threads(t.Context(), memory.ThreadFilter{Limit: 2 * senders})
	require.NoError(t, err)
	require.Len(t, threads, senders)
}
