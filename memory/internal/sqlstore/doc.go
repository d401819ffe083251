// Package sqlstore is the ConversationMemoryStore over database/sql. It holds
// every rule of docs/state-machine.md once; a package per technology supplies a
// Backend (transactions and reads) and a Dialect (what differs in SQL).
//
// Each operation is a unit of work: it loads the thread row and the turn row it
// is fenced by, writes the new rows as it goes, and puts the changed thread and
// turn rows back with one statement each before the commit. Counters live in
// those rows, so that no operation gets slower as a thread gets longer.
package sqlstore
