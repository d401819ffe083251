package starter

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/exit"
)

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
			return notUsed(command, g.flag)
		}
	}
	if a.flags[config.Server] != "" {
		return a.onlyServer("--server")
	}
	return nil
}

func notUsed(command, flag string) error {
	return exit.Misuse("--%s changes nothing here, leave it out: %s", flag, cmp.Or(unused[command+" "+flag], unused[flag]))
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
