// Package spool runs AI-agent conversations that cannot be lost.
//
// A Worker runs turns: it calls models and tools, and hands work to sub-agents.
// A Client sends messages to threads and follows, decides, cancels, retries, forks
// and shows them. Both work on a store (see OpenStore) and on a Temporal client:
// the store is the queue and the record, Temporal runs the turns. What is sent
// while Temporal or all workers are away is stored and runs later.
//
//	store, err := spool.OpenStore(ctx, "sqlite:/var/lib/spool/spool.db")
//	if err != nil { ... }
//	defer store.Close()
//	c := spool.NewClient(store, temporal, spool.ClientOptions{UserID: "ada"})
//	sent, err := c.Send(ctx, memory.SendRequest{SessionID: "s1", Content: agent.Text("Hello")})
//	if err != nil { ... }
//	reply, err := c.Wait(ctx, sent.ThreadID, sent.TurnID, spool.WaitOptions{})
//	fmt.Println(reply.Response)
//
// The examples run as they stand:
//
//   - Worker: a worker with a tool of its own
//   - Client.Send, Client.Wait: a message and its answer, sent twice
//   - Client.Follow: what a thread emits, from any cursor on
//   - Client.Decide: a tool call that asks a person first
//   - Client.Fork: a new conversation that begins as another one did
//   - Client.Trace: the sub-agents below a conversation
//
// A worker is made of a model (NewModel, DemoModel), tools (NewTool, NewTools,
// BuiltinTools) and agents (NewAgents). The vocabulary, messages and threads, is in
// package agent, the stores behind their port in package memory.
//
// Errors carry a code: see agent.CodeOf.
package spool
