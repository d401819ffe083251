// Package agent has the words of Spool and the rules that need no I/O. One needs Text and Content for messages; ToolSpec,
// ToolRun, ToolOK and ToolFailed for tools; SpecialistAgentConfig and DelegationPolicy for agents; Model with ModelRequest,
// ModelReply and ModelError for models; Thread, ThreadStatus and Event to read; CodeOf to tell errors apart. The rest is
// shared by the parts of Spool. It imports only the standard library and reads neither a clock nor a random source, so
// workflow code may use all of it.
package agent
