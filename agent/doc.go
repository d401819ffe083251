// Package agent has the words of Spool and the rules that need no I/O. The names one
// needs to write tools, agents and models:
//
//   - Text and Content are what messages hold; Message is one of a transcript.
//   - ToolSpec describes a tool, ToolRun is one run of it, ToolOK and ToolFailed are its
//     results; Tool is what spool.NewTool makes.
//   - SpecialistAgentConfig is an agent, DelegationPolicy who may hand work to whom.
//   - Model is the port of models, with ModelRequest, ModelReply and ModelError.
//   - CodeOf tells errors apart: CodeInvalid, CodeNotFound, CodeConflict and the others.
//   - Thread, ThreadStatus and Event are what clients read; MainThreadID names a thread.
//
// The rest is shared by the parts of Spool. The package imports only the standard library
// and reads neither a clock nor a random source, so workflow code may use all of it.
package agent
