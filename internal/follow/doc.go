// Package follow tells what happens in a store as it happens. All who follow or wait
// through one store handle of a process share one poll loop (watch.go) and one
// reading of each thread that changed (log.go); each follower then goes on at its own
// pace from its own cursor (follow.go). It reads the store only.
package follow
