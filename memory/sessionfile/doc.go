// Package sessionfile reads and writes the files of exported sessions, below the
// folder of a profile:
//
//	session_SHORT.json           a conversation's own thread, one file each, flat
//	subagent_session_SHORT.json  a sub-agent's thread, whatever its depth
//	sessions/ID/history.json     {conversation: [message, …]} with metadata
//	sessions/ID/events.json      {thread: [event, …]}, if it is wanted
//	sessions/ID/http-log.json    a line of JSON per model call, if it is wanted
//
// Files are the old or the new one, never something in between. A file that
// cannot be understood is reported and never written over. Nothing here knows a
// store: what goes in and comes out are plain values.
package sessionfile
