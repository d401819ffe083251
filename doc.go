// Package spool runs AI-agent conversations that cannot be lost.
//
// A Client sends messages to threads and follows, cancels, retries, decides and
// shows them. It works on a store (see OpenStore) and, where one can be reached,
// on a Temporal client: the store is the queue and the record, Temporal runs the
// turns. What is sent while Temporal is away is stored and runs later.
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
// Errors carry a code: see agent.CodeOf.
package spool
