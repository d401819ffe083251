package spool_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
)

// A Temporal that goes away while open turns are compared with it is named as what is missing.
func TestReconcileWithoutTemporal(t *testing.T) {
	d, _ := newDriver(t)
	gone, err := client.NewLazyClient(client.Options{HostPort: "127.0.0.1:1"})
	require.NoError(t, err)
	defer gone.Close()
	_, err = spool.NewClient(d.store, gone, spool.ClientOptions{}).Reconcile(t.Context(), time.Second)
	assert.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	assert.ErrorContains(t, err, "Temporal ")
}
