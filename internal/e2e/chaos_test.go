package e2e

import (
	"fmt"
	"math/rand"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool"
	tt "github.com/spool-agents/spool/internal/temporaltest"
)

// Rows 103, 104, D9: 8 clients send 50 messages to one thread (200 if all is asked
// for, 800 in the long form) while a worker is killed every 1 to 6 s: each is
// answered exactly once.
func TestRow104_HammeredThread(t *testing.T) {
	const clients = 8
	total := 50
	switch {
	case tt.Long():
		total = 800
	case tt.All():
		total = 200
	}
	rng := rand.New(rand.NewSource(tt.Seed(t)))
	s := stack(t)
	stop := make(chan struct{})
	var killer sync.WaitGroup
	killer.Add(1)
	kills := 0
	go func() {
		defer killer.Done()
		workers := []*tt.Process{s.StartWorker(), s.StartWorker()}
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Second + time.Duration(rng.Int63n(int64(5*time.Second)))):
			}
			victim := rng.Intn(len(workers))
			workers[victim].Kill()
			workers[victim] = s.StartWorker()
			kills++
		}
	}()
	var senders sync.WaitGroup
	replies := make([]spool.Reply, total)
	errs := make([]error, clients)
	for c := range clients {
		senders.Add(1)
		go func() {
			defer senders.Done()
			for i := c; i < total; i += clients {
				m := s.Message("hammer", fmt.Sprintf("script: say answer %d", i))
				m.MessageID = fmt.Sprintf("m%d", i)
				for range 2 { // every message is sent twice
					if replies[i], errs[c] = s.Client.Send(s.Ctx(), m); errs[c] != nil {
						return
					}
				}
			}
		}()
	}
	senders.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	for i, r := range replies {
		require.Equal(t, fmt.Sprintf("answer %d", i), s.Wait(r).Response)
	}
	close(stop)
	killer.Wait()
	t.Logf("%d messages, %d kills", total, kills)
	answered := map[string]int{}
	users := map[string]int{}
	for _, m := range messages(t, s, s.Thread("hammer")) {
		if m.Role == "user" {
			users[m.ID]++
		} else {
			answered[m.Content.String()]++
		}
	}
	require.Len(t, users, total)
	require.Len(t, answered, total)
	for text, n := range answered {
		require.Equal(t, 1, n, text)
	}
}
