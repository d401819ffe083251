// Package temporaltest runs the real thing for tests: Temporal's own
// program as the server, worker processes built from this tree, a store on disk,
// and a fake model server. Nothing of Spool itself is replaced, so a test may
// kill any of it.
package temporaltest
