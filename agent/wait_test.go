package agent

import (
	"strings"
	"testing"
	"time"
)

func TestModelWaitText(t *testing.T) {
	zone := time.FixedZone("here", 3600)
	now := time.Date(2026, 5, 1, 14, 3, 0, 0, zone)
	until := now.Add(20 * time.Second)
	end := now.Add(12 * time.Minute)
	failed := NewModelWait(&ModelError{Code: ModelUnreachable, Message: "connection\nrefused"}, 4, until)
	failed.GivesUpAt = &end
	goesOn := *failed
	goesOn.Fallback = "m2@two"
	for want, w := range map[string]*ModelWait{
		`the model did not answer (no connection: "connection refused"), trying again at 14:03:20 (attempt 4; goes on with m2@two at 14:15:00)`: &goesOn,
		`waiting for the provider until 14:03:20 (rate limited: "slow down"), attempt 3`:                                                        NewModelWait(&ModelError{Code: ModelRateLimited, Message: "slow down"}, 3, until),
		`waiting for the provider until 2026-05-02 14:03:00 (overloaded), attempt 2`:                                                            NewModelWait(&ModelError{Code: ModelOverloaded, RetryAfter: time.Hour}, 2, now.Add(24*time.Hour)),
		`the model did not answer (no connection: "connection refused"), trying again at 14:03:20 (attempt 4; gives up at 14:15:00)`:            failed,
		`held back until 14:03:20: the provider asked everyone to wait (429: "slow down")`:                                                      NewModelWait(&ModelError{Code: ModelRateLimited, Status: 429, Message: "slow down", RetryAfter: time.Second, NotCalled: true}, 1, until),
		`held back until 14:03:20: the provider asked everyone to wait`:                                                                         NewModelWait(&ModelError{Code: ModelRateLimited, RetryAfter: time.Second, NotCalled: true}, 1, until),
	} {
		if got := w.Text(now); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	long := NewModelWait(&ModelError{Code: ModelOverloaded, Message: strings.Repeat("ö", 1000)}, 2, until)
	if len(long.Reason) > longestReason+len("…") || strings.ContainsRune(long.Reason, '\uFFFD') {
		t.Errorf("reason %q", long.Reason)
	}
}

func TestLocalTimes(t *testing.T) {
	now := time.Date(2026, 5, 1, 14, 3, 0, 0, time.FixedZone("here", 3600))
	const want = "said at 14:01:02 to wait until 2026-05-02 17:47:41; 2026-99-99T99:99:99Z"
	if got := LocalTimes("said at 2026-05-01T13:01:02Z to wait until 2026-05-02T16:47:41Z; 2026-99-99T99:99:99Z", now); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
