// Package starter is the command line of Spool: the programs starter and spool.
//
// Results go to stdout, one JSON document with --json; progress, logs and errors
// go to stderr. Every command checks its arguments before it opens anything.
package starter
