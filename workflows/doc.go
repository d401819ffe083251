// Package workflows holds the two workflow types, ConversationTurn and
// SubAgentTurn, and the agent loop they share.
//
// A run is a thin driver: it names a thread, learns from the store what to do
// next, and records references only. Everything that must not be lost is in the
// store, so a run may end, continue as new, be reset or be lost at any point.
// The code is deterministic: it imports agent and internal/contract only and
// reads no clock, no random source and no worker setting except what an
// activity returned.
package workflows
