package starter

import "github.com/spool-agents/spool/internal/config"

type grammar struct {
	Home      string `placeholder:"DIR" help:"Directory of Spool's data (SPOOL_HOME, default ~/.spool)."`
	Store     string `placeholder:"STORE" help:"Where threads are kept: sqlite:PATH, postgres://…, file:DIR or memory: (SPOOL_STORE)."`
	User      string `placeholder:"ID" help:"Whose threads (SPOOL_USER)."`
	Profile   string `placeholder:"NAME" help:"Profile of new threads (SPOOL_PROFILE)."`
	TaskQueue string `placeholder:"NAME" help:"Temporal task queue (SPOOL_TASK_QUEUE, default from the store's id)."`
	Address   string `name:"temporal-address" placeholder:"HOST:PORT" help:"Temporal server (TEMPORAL_ADDRESS)."`
	Namespace string `name:"temporal-namespace" placeholder:"NAME" help:"Temporal namespace (TEMPORAL_NAMESPACE)."`
	UI        string `name:"temporal-ui" placeholder:"URL" help:"Temporal's web UI, for links (SPOOL_TEMPORAL_UI)."`
	Server    string `placeholder:"URL" help:"Web server to use in place of store and Temporal: the link that web printed, with its token (SPOOL_SERVER, SPOOL_SERVER_TOKEN)."`
	JSON      bool   `name:"json" help:"Print one JSON document (JSON lines for streams) on stdout."`

	Dev  devCmd  `cmd:"" help:"Run a local stack: Temporal, its web UI and workers."`
	Demo demoCmd `cmd:"" help:"Show a turn with tools and sub-agents that survives the death of its worker."`
	Web  webCmd  `cmd:"" help:"Serve the web page and the HTTP API."`

	Send   sendCmd   `cmd:"" help:"Send a message and wait for the answer."`
	Chat   chatCmd   `cmd:"" help:"Talk to a conversation."`
	Retry  retryCmd  `cmd:"" help:"Run the last turn of a thread again."`
	Cancel cancelCmd `cmd:"" help:"End the open turn of a thread."`
	Fork   forkCmd   `cmd:"" help:"Copy a conversation up to a message into a new one."`

	Approvals approvalsCmd `cmd:"" help:"List tool calls that wait for a person."`
	Approve   approveCmd   `cmd:"" help:"Let tool calls run."`
	Deny      denyCmd      `cmd:"" help:"Refuse tool calls."`
	Edit      editCmd      `cmd:"" help:"Answer a tool call instead of running it."`

	Questions questionsCmd `cmd:"" help:"List questions of agents that wait for an answer."`
	Answer    answerCmd    `cmd:"" help:"Answer a question of an agent."`

	Threads threadsCmd `cmd:"" help:"List threads, newest activity first."`
	Show    showCmd    `cmd:"" help:"Print a thread: messages, inbox, tasks, tool calls."`
	Trace   traceCmd   `cmd:"" help:"Print the tree below a thread and the way up to its root."`
	Tasks   tasksCmd   `cmd:"" help:"List the tasks of a thread."`
	Verify  verifyCmd  `cmd:"" help:"Check what must always hold of a thread, or of all."`
	History historyCmd `cmd:"" help:"Print the Temporal history of a thread as JSON."`

	WebToken       webTokenCmd       `cmd:"" help:"Make a token with which a user enters the web server."`
	TemporalServer temporalServerCmd `cmd:"" hidden:"" help:"Run the server of dev."`
	CodecServer    codecServerCmd    `cmd:"" help:"Decrypt for Temporal's web UI and the temporal program what Spool has encrypted."`

	Sessions sessionsCmd `cmd:"" help:"List, load, export, import, delete and expire sessions."`

	Agents agentsCmd `cmd:"" help:"List agents and where their templates come from."`
	Tools  toolsCmd  `cmd:"" help:"List the tools of a worker started here, and ask its MCP servers."`
	Models modelsCmd `cmd:"" help:"List the models a worker started here would use, and ask them."`
	Trust  trustCmd  `cmd:"" help:"Show what a folder asks for beyond what any folder may do, and agree to it."`
	Doctor doctorCmd `cmd:"" help:"Print every setting with its source, check every part, and say what to do."`
}

func (g *grammar) settings() map[string]string {
	return map[string]string{
		config.Home: g.Home, config.Store: g.Store, config.User: g.User, config.Profile: g.Profile, config.TaskQueue: g.TaskQueue,
		config.TemporalAddress: g.Address, config.TemporalNamespace: g.Namespace, config.TemporalUI: g.UI, config.Server: g.Server,
	}
}
