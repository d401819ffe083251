// Package filestore is the store that keeps each thread in a JSON file of its
// own, flat in one folder, for people and their tools to read:
//
//	DIR/session_SHORT.json           a conversation's own thread
//	DIR/subagent_session_SHORT.json  a sub-agent's thread
//	DIR/images/NAME                  an image that messages show
//	DIR/.spool/                      the journal, and the lock of its one process
//
// What is written is durable in the journal, a small SQLite database, before an
// operation returns. The files follow within a moment, each replaced as a whole,
// and are caught up when the store is opened. So a file is the old or the new one
// after a kill at any time, and nothing that was acknowledged is missing.
//
// The journal counts: what is changed in a file is not read back. Files that the
// journal does not know are imported, as closed history, when the store is opened;
// without a journal those are all. A file that cannot be understood is set aside and
// reported.
//
// One process may have the store open. Each change of a thread rewrites its whole
// file, some time later and several changes at once, so long threads cost more
// with every step; opening reads everything. For many or very long conversations,
// or several processes, use SQLite or PostgreSQL. A message takes about 3 KB, as a
// file holds rows besides. On a busy machine of two processors writing a file took
// 80 ms at 100 messages, 350 ms at 1,000 and 4 s at 10,000 (docs/figures.md); no
// operation waits for that, and a file that takes long lags behind longer.
package filestore
