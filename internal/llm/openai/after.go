package openai

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	// maxRetryAfter is more than any quota lasts. What a provider says is told as it is,
	// unless it is more than that, and so no answer.
	maxRetryAfter = 366 * 24 * time.Hour
	// maxReset bounds what is taken from other headers and from texts: they say when a
	// whole budget is full again, which is later than when a call passes.
	maxReset = time.Minute
)

// retryAfter reads Retry-After-Ms and Retry-After, in seconds or as a date.
// A date is compared with the response's own Date: our clock may be wrong.
func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After-Ms")), 64); err == nil && ms >= 0 {
		return sensible(seconds(fmt.Sprint(ms / 1000)))
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0, false
	}
	if f, err := strconv.ParseFloat(v, 64); err == nil {
		if f < 0 {
			return 0, false
		}
		return sensible(seconds(v))
	}
	if d, err := time.ParseDuration(v); err == nil && d >= 0 {
		return sensible(d)
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0, false
	}
	return sensible(max(at.Sub(sentAt(h, now)), 0))
}

// sensible is a time that a provider may mean; what is longer is as if it had said none.
func sensible(d time.Duration) (time.Duration, bool) {
	if d > maxRetryAfter {
		return 0, false
	}
	return d, true
}

// sentAt is the provider's time.
func sentAt(h http.Header, now time.Time) time.Time {
	if sent, err := http.ParseTime(h.Get("Date")); err == nil {
		return sent
	}
	return now
}

func seconds(s string) time.Duration {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f > 0) {
		return 0
	}
	return time.Duration(min(f, 2*maxRetryAfter.Seconds()) * float64(time.Second))
}

// resets are the headers that tell when a limit is full again, with those that tell
// what is left of it.
var resets = []struct{ reset, left string }{
	{"X-Ratelimit-Reset-Requests", "X-Ratelimit-Remaining-Requests"}, // OpenAI, Groq: 6m0s, 7.66s
	{"X-Ratelimit-Reset-Tokens", "X-Ratelimit-Remaining-Tokens"},
	{"Anthropic-Ratelimit-Requests-Reset", "Anthropic-Ratelimit-Requests-Remaining"}, // RFC 3339
	{"Anthropic-Ratelimit-Tokens-Reset", "Anthropic-Ratelimit-Tokens-Remaining"},
	{"X-Ratelimit-Reset", "X-Ratelimit-Remaining"}, // OpenRouter: milliseconds since 1970
	{"Ratelimit-Reset", "Ratelimit-Remaining"},
}

// tryAgain finds the time in a text: "Please try again in 1m2.5s", "retry in 34.07s".
var tryAgain = regexp.MustCompile(`(?i)(?:try again|retry) (?:in|after) ((?:[0-9.]+ ?(?:ms|h|m|s))+)(?:[^a-z]|econds?|$)`)

// limitReset is when a rate limit without a Retry-After ends, or 0: by the limit that
// is used up, or by what the text says.
func limitReset(h http.Header, text string, now time.Time) time.Duration {
	if m := tryAgain.FindStringSubmatch(text); m != nil {
		if d, err := time.ParseDuration(strings.ReplaceAll(strings.ToLower(m[1]), " ", "")); err == nil && d > 0 {
			return min(d, maxReset)
		}
	}
	var longest time.Duration
	for _, r := range resets {
		if left := strings.TrimSpace(h.Get(r.left)); left != "" && left != "0" {
			continue
		}
		longest = max(longest, resetIn(strings.TrimSpace(h.Get(r.reset)), sentAt(h, now)))
	}
	return min(longest, maxReset)
}

// resetIn reads a duration, seconds, a time since 1970 or a date.
func resetIn(v string, now time.Time) time.Duration {
	if d, err := time.ParseDuration(v); err == nil {
		return max(d, 0)
	}
	if f, err := strconv.ParseFloat(v, 64); err == nil {
		const asDate = 1e9 // more seconds than anyone waits
		switch {
		case f > asDate*1000:
			return max(time.UnixMilli(int64(min(f, 1e15))).Sub(now), 0)
		case f > asDate:
			return max(time.Unix(int64(f), 0).Sub(now), 0)
		}
		return seconds(v)
	}
	if at, err := time.Parse(time.RFC3339, v); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
