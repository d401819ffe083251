package main

import (
	"time"

	"go.temporal.io/server/common/dynamicconfig"
)

// pollRPS replaces the default of 20 task reads per second and shard, which
// holds a workflow that runs its activities one by one to about 20 a second.
const pollRPS = 2000

// dynamicConfig returns the server's dynamic configuration. All limits on sizes
// (payloads, histories, messages) keep their defaults.
func dynamicConfig(untuned bool) dynamicconfig.StaticClient {
	c := dynamicconfig.StaticClient{
		// A local server must not call home; this does not touch what is measured.
		dynamicconfig.EnableServerVersionCheck.Key(): false,
	}
	if untuned {
		return c
	}
	for key, value := range map[dynamicconfig.Key]any{
		dynamicconfig.TransferProcessorMaxPollRPS.Key():   pollRPS,
		dynamicconfig.TimerProcessorMaxPollRPS.Key():      pollRPS,
		dynamicconfig.VisibilityProcessorMaxPollRPS.Key(): pollRPS,
		// The default of 1 s delays every continue-as-new, hence every turn
		// that follows a short one.
		dynamicconfig.WorkflowIdReuseMinimalInterval.Key(): time.Duration(0),
		// The default of 1 s is added to each timer, hence to every retry.
		dynamicconfig.TimerProcessorMaxTimeShift.Key(): 10 * time.Millisecond,
		// Push a cancel to the worker instead of waiting for a heartbeat.
		dynamicconfig.EnableCancelActivityWorkerCommand.Key(): true,
		dynamicconfig.WorkerCommandsEnabled.Key():             true,
	} {
		c[key] = value
	}
	return c
}
