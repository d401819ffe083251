// Package starter is the command line of Spool: the programs starter and spool.
//
// Results go to stdout, one JSON document with --json; progress, logs and errors
// go to stderr. Every command checks its arguments before it opens anything.
package starter

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/exit"
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

// Groups of global flags, as they are typed.
const (
	storeFlags    = "home store user profile json"
	temporalFlags = "task-queue temporal-address temporal-namespace"
	listFlags     = storeFlags + " server"
	turnFlags     = listFlags + " " + temporalFlags
)

// uses says which global flags each command uses. Others are refused: a flag that
// would change nothing was meant to change something.
var uses = map[string]string{
	"dev":             storeFlags + " task-queue temporal-namespace temporal-ui",
	"demo":            "json",
	"web":             storeFlags + " " + temporalFlags + " temporal-ui",
	"web-token":       "home json",
	"temporal-server": "json",
	// Whose pages may use it is found at the address, as links of trace are.
	"codec-server": "home temporal-address temporal-ui json",

	"send": turnFlags, "chat": turnFlags, "retry": turnFlags, "cancel": turnFlags, "fork": listFlags,
	"approvals": listFlags, "approve": turnFlags, "deny": turnFlags, "edit": turnFlags,
	"questions": listFlags, "answer": turnFlags,

	"threads": listFlags, "tasks": listFlags,
	"show":   turnFlags + " temporal-ui",
	"trace":  listFlags + " temporal-address temporal-namespace temporal-ui",
	"verify": storeFlags + " " + temporalFlags, "history": storeFlags + " " + temporalFlags,

	"sessions list": storeFlags, "sessions load": storeFlags, "sessions export": storeFlags, "sessions import": storeFlags,
	"sessions delete": storeFlags, "sessions expire": storeFlags,

	"agents": "home json", "tools": "home json", "models": "home json", "trust": "home json",
	"doctor": turnFlags + " temporal-ui",

	"mcp": turnFlags, "version": "json", "help": "", "completion": "", "complete": "",
}

// unused says why a flag changes nothing: by command and flag, else by flag.
var unused = map[string]string{
	"dev temporal-address": "dev runs a server of its own; for one that runs already, give --temporal HOST:PORT",
	"demo home":            "the demo makes a home of its own",
	"web-token user":       "give the user as the argument: web-token USER",

	"store":              "the command opens no store",
	"user":               "the command shows nothing of any user",
	"profile":            "the command works with no threads of a profile",
	"task-queue":         "the command asks no Temporal server",
	"temporal-address":   "the command asks no Temporal server",
	"temporal-namespace": "the command asks no Temporal server",
	"temporal-ui":        "the command prints no links to Temporal's web UI",
	"server":             "use the command where store and workers are",
}

// globals are the flags that set a setting.
var globals = []struct{ flag, setting string }{
	{"home", config.Home}, {"store", config.Store}, {"user", config.User}, {"profile", config.Profile}, {"task-queue", config.TaskQueue},
	{"temporal-address", config.TemporalAddress}, {"temporal-namespace", config.TemporalNamespace}, {"temporal-ui", config.TemporalUI}, {"server", config.Server},
}

func (a *app) checkFlags(command string) error {
	used := strings.Fields(uses[command])
	for _, g := range globals {
		if a.flags[g.setting] != "" && !slices.Contains(used, g.flag) {
			return exit.Misuse("--%s changes nothing here, leave it out: %s", g.flag, cmp.Or(unused[command+" "+g.flag], unused[g.flag]))
		}
	}
	if a.flags[config.Server] != "" {
		return a.onlyServer("--server")
	}
	return nil
}

// onlyServer refuses flags of store and Temporal beside the web server that takes
// their place; by says what names that.
func (a *app) onlyServer(by string) error {
	for _, g := range globals {
		if g.flag != "home" && g.flag != "server" && a.flags[g.setting] != "" {
			return exit.Misuse("--%s changes nothing beside a web server (%s), which has a store, a Temporal server and users of its own: leave out one of the two", g.flag, by)
		}
	}
	return nil
}
