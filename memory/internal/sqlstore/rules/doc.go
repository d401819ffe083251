// Package rules is the writing side of the store: every rule of
// docs/state-machine.md, one file per table of it.
package rules
