// Package memorytest is the conformance suite of memory.ConversationMemoryStore.
//
// RunStore checks that a store keeps the contract of docs/state-machine.md:
// every edge, every fence, every repetition. Each case is named by the sentence
// of its rule. Where the contract is silent the suite asserts nothing, so that
// stores may differ there.
//
// The rules are in packages by subject below internal, and what they are made of
// in internal/suite. Package processtest has what needs other processes.
package memorytest
