//go:build race

package memory_test

// underRace makes the exploration smaller: it has one goroutine, so the race
// detector only slows it down.
const underRace = true
