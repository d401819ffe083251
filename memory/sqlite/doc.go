// Package sqlite is the embedded store: one file, several processes on one
// machine, no server. A commit is on disk before a method returns (write-ahead
// log, synchronous FULL), so the store is never behind Temporal.
//
// Each process has one connection for writing and a few for reading. Writers of
// all processes take turns; one that has to wait does so for up to 30 seconds
// and then says which file is locked. The file must not lie on a network file
// system: SQLite's locks do not work there.
package sqlite
