// Package port shows memory by keys: lists of messages under names, with what is
// counted about them. It is a family of views. MemoryPort is what programs use,
// PersistedMemory is a MemoryPort over any MemoryPersistence, and of those there
// are three:
//
//	NewInMemory   this process only
//	NewJSONFile   one JSON file that people can read
//	NewStore      the conversations that Spool runs, of one user, in any of its stores
//
// ConversationStore and AgentSessionStore add metadata and sub-agents to any of
// them. Nothing is kept here beside the store: a conversation that Spool ran is
// read through a MemoryPort, and what is added through one is seen by its next turn.
package port
