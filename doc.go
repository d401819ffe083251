// Package spool runs AI-agent conversations that cannot be lost. The names one needs:
//
//   - OpenStore opens the store, which is the queue and the record.
//   - NewWorker and Worker.Run run turns: they call models and tools, and hand work to
//     sub-agents. A worker is made of a model (NewModel, DemoModel), tools (NewTool,
//     NewTools, BuiltinTools) and agents: files (NewAgents), or values (OwnAgents).
//   - NewClient makes a Client for a user. Client.Ask sends a message, streams what
//     happens, has callbacks decide and answer, and returns the Reply.
//   - Client.Send, Client.Follow and Client.Wait are its parts; Client.Decide and
//     Client.Answer are what a turn waits for from a person, from wherever they come.
//   - Client.Cancel ends a turn, Client.Retry makes the last one again, Client.Fork
//     copies a conversation. Client.Show reads a thread, Client.Trace its sub-agents.
//   - NewToolsWithMCP, KnownModels and LoadEncryptionKeys are what the settings of the
//     programs are made of: MCP servers, windows and prices of models, encryption.
//
// Worker and Client work on a store and on a Temporal client, which runs the turns.
// What is sent while Temporal cannot be reached, or no worker is running, is stored
// and runs later. Whole programs are in examples.
//
//	temporal, err := client.Dial(client.Options{}) // go.temporal.io/sdk/client; this is localhost:7233
//	store, err := spool.OpenStore(ctx, "sqlite:/var/lib/spool/spool.db")
//	c := spool.NewClient(store, temporal, spool.ClientOptions{UserID: "ada"})
//	reply, err := c.Ask(ctx, memory.SendRequest{SessionID: "s1", Content: agent.Text("Hello")}, spool.AskOptions{})
//	fmt.Println(reply.Status, reply.Response, reply.Error)
//
// That a turn failed, or waits for a person, is no error: the Reply's Status says so.
// Messages, threads, tools and errors, which carry a code (agent.CodeOf), are in package
// agent; the requests and the stores behind their port are in package memory.
package spool
