package starter

import (
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/usage"
)

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

	Dev  devCmd  `cmd:"" eg:"--workers 2" help:"Run a local stack: Temporal, its web UI and workers."`
	Demo demoCmd `cmd:"" eg:"--json" help:"Show a turn with tools and sub-agents that survives the death of its worker."`
	Web  webCmd  `cmd:"" eg:"--web-port 8080" help:"Serve the web page and the HTTP API."`

	Send   sendCmd   `cmd:"" eg:"-s notes 'What is in this folder?'" help:"Send a message and wait for the answer."`
	Chat   chatCmd   `cmd:"" eg:"--continue" help:"Talk to a conversation."`
	Retry  retryCmd  `cmd:"" eg:"latest" help:"Run the last turn of a thread again."`
	Cancel cancelCmd `cmd:"" eg:"latest --all" help:"End the open turn of a thread."`
	Fork   forkCmd   `cmd:"" eg:"notes --at 4 -c other-way" help:"Copy a conversation up to a message into a new one."`

	Approvals approvalsCmd `cmd:"" eg:"latest" help:"List tool calls that wait for a person."`
	Approve   approveCmd   `cmd:"" eg:"0f3a5c7e9b1d2f40" help:"Let tool calls run."`
	Deny      denyCmd      `cmd:"" eg:"0f3a5c7e9b1d2f40" help:"Refuse tool calls."`
	Edit      editCmd      `cmd:"" eg:"0f3a5c7e9b1d2f40 'Leave the file as it is.'" help:"Answer a tool call instead of running it."`

	Questions questionsCmd `cmd:"" eg:"latest" help:"List questions of agents that wait for an answer."`
	Answer    answerCmd    `cmd:"" eg:"0f3a5c7e9b1d2f40 'The second one.'" help:"Answer a question of an agent."`

	Threads threadsCmd `cmd:"" eg:"--status failed --limit 5" help:"List threads, newest activity first."`
	Show    showCmd    `cmd:"" eg:"latest --last 2" help:"Print a thread: messages, inbox, tasks, tool calls."`
	Trace   traceCmd   `cmd:"" eg:"latest" help:"Print the tree below a thread and the way up to its root."`
	Tasks   tasksCmd   `cmd:"" eg:"notes" help:"List the tasks of a thread."`
	Verify  verifyCmd  `cmd:"" eg:"--all" help:"Check what must always hold of a thread, or of all."`
	History historyCmd `cmd:"" eg:"latest --all --dir histories" help:"Print the Temporal history of a thread as JSON."`

	WebToken       webTokenCmd       `cmd:"" eg:"anna" help:"Make a token with which a user enters the web server."`
	TemporalServer temporalServerCmd `cmd:"" hidden:"" help:"Run the server of dev."`
	CodecServer    codecServerCmd    `cmd:"" help:"Decrypt for Temporal's web UI and the temporal program what Spool has encrypted."`

	Sessions sessionsCmd `cmd:"" help:"List, load, export, import, delete and expire sessions."`

	Agents agentsCmd `cmd:"" eg:"--json" help:"List agents and where their templates come from."`
	Tools  toolsCmd  `cmd:"" help:"List the tools of a worker started here, and ask its MCP servers."`
	Models modelsCmd `cmd:"" help:"List the models a worker started here would use, and ask them."`
	Trust  trustCmd  `cmd:"" eg:". --yes" help:"Show what a folder asks for beyond what any folder may do, and agree to it."`
	Doctor doctorCmd `cmd:"" eg:"--only store,temporal,worker" help:"Print every setting with its source, check every part, and say what to do."`

	MCP mcpCmd `cmd:"" name:"mcp" eg:"--approvals" help:"Serve conversations to other agents and editors, as an MCP server on stdin and stdout."`

	Version    usage.Version    `cmd:"" eg:"--json" help:"Print the version and the commit, as --version does."`
	Help       usage.HelpOf     `cmd:"" eg:"send" help:"Print the help of a command."`
	Completion usage.Completion `cmd:"" eg:"bash >> ~/.bash_completion" help:"Print what makes bash, zsh or fish complete commands and flags."`
	Complete   usage.Complete   `cmd:"" hidden:"" help:"Print what a command line can go on with."`
}

func (g *grammar) settings() map[string]string {
	return map[string]string{
		config.Home: g.Home, config.Store: g.Store, config.User: g.User, config.Profile: g.Profile, config.TaskQueue: g.TaskQueue,
		config.TemporalAddress: g.Address, config.TemporalNamespace: g.Namespace, config.TemporalUI: g.UI, config.Server: g.Server,
	}
}
