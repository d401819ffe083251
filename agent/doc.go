// Package agent is Spool's pure vocabulary: messages, threads, turns, tasks,
// tool calls, events, ids, the model and tool ports, and the rules that need no
// I/O (transcript repair, delegation policy, loop detection).
//
// It imports only the standard library and reads neither a clock nor a random
// source, so workflow code may use all of it.
package agent
