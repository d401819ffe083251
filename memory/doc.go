// Package memory holds the ports of Spool's persistence and the rules every
// implementation keeps.
//
// ConversationMemoryStore is the port of whole operations: each method is one
// transaction, idempotent, and fenced by (turn, attempt). The states and edges
// it moves along stand in docs/state-machine.md. Implementations live in one
// package per technology (sqlite, postgres, …); memorytest is the conformance suite all
// of them pass.
package memory
