// Package spool runs AI-agent conversations that cannot be lost.
//
// The names that one needs:
//
//   - OpenStore opens the store, which is the queue and the record.
//   - NewWorker and Worker.Run run turns: they call models and tools, and hand work to
//     sub-agents. A worker is made of a model (NewModel, DemoModel), tools (NewTool,
//     NewTools, BuiltinTools) and agents (NewAgents).
//   - NewClient makes a Client for a user. Client.Send puts a message into a thread,
//     Client.Wait waits for its Reply, Client.Follow delivers each Update of a thread.
//   - Client.Decide and Client.Answer are what a turn waits for from a person.
//   - Client.Cancel ends a turn, Client.Retry makes the last one again, Client.Fork
//     copies a conversation.
//   - Client.Show reads a thread as a View, Client.Trace its sub-agents as a Node.
//
// Worker and Client work on a store and on a Temporal client, which runs the turns.
// What is sent while Temporal cannot be reached, or no worker is running, is stored
// and runs later.
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
// Messages, threads and errors, which carry a code (agent.CodeOf), are in package
// agent; the requests and the stores behind their port are in package memory.
package spool
