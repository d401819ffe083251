// Package postgres is the store for several machines: workers, senders and
// readers on any of them share one PostgreSQL database (version 12 or newer).
//
// Transactions are READ COMMITTED with explicit locks. Every operation first
// locks the row of its tree's root thread, so that all writes in a tree of
// threads are serial and nobody holds one lock of a tree while waiting for
// another; streamed text locks only its step. What is shared between trees
// (sessions, configurations, remembered approvals) is inserted unless it is
// there. Should the database undo a transaction all the same because of another
// one, the operation is run again; no caller sees a deadlock.
//
// The clock is the database's, so that machines need not agree on the time. A
// commit waits for the server's disk as long as the server's synchronous_commit
// says so: leave it on, else Temporal can be ahead of the store.
//
// Statements are prepared and transactions span several of them: a pooler in
// between must pool sessions, not transactions or statements.
package postgres
