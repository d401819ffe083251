//go:build postgres

package httpapi_test

import (
	"testing"

	tt "github.com/spool-agents/spool/internal/temporaltest"
)

func TestUsersOnPostgres(t *testing.T) {
	t.Parallel()
	tt.OnPostgres(t)
	t.Run("other users", TestFault_F2_OtherUsers)
	t.Run("no orders", TestUsersGiveNoOrders)
	t.Run("first data", TestFirstDataInOneAnswer)
	t.Run("tasks at every depth", TestTasksAtEveryDepth)
	t.Run("a lost worker", TestALostWorkerIsInTheTrace)
}
