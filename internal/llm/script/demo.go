package script

import "strings"

// DemoPrompt is the message that starts the canned demonstration: two tools at
// once, then two sub-agents at once that each use a tool, then an answer built
// from what they reported. It uses tools that need no approval only, so that it
// also runs unattended.
const DemoPrompt = "Show me what Spool can do."

// DemoLogsPrompt is DemoPrompt for a project with a folder of logs: its first
// tool searches them, which takes long enough to be killed in the middle.
const DemoLogsPrompt = "Is any order missing in the logs? Then show me what Spool can do: " +
	"search them, and hand out some work meanwhile."

// Friendly answers a turn that has no script.
const Friendly = "This is Spool's scripted demo model: it follows scripts and understands nothing else. " +
	"Which model answers is a setting of the worker, not of the program you typed this into. " +
	"To talk to a real model, set OPENAI_API_KEY (and OPENAI_BASE_URL for a provider other than OpenAI, " +
	"SPOOL_MODEL for the model's name) in the worker's environment and restart the worker. " +
	"To see a turn with tools and sub-agents without a key, send: " + DemoPrompt

const (
	demoResearch = "List the files of this project and report what you see."
	demoSum      = "Work out how many seconds a day has and report the number."
)

// canned maps texts to scripts. A text counts if a message ends with it: an
// agent's task may be introduced by other words.
var canned = []struct{ text, script string }{
	{DemoPrompt, demo(Call("ls", args{"path": "."}))},
	{DemoLogsPrompt, demo(Call("grep", args{"pattern": "(?i)order [0-9]+ was (lost|doubled)", "path": "logs"}))},
	{demoResearch, script(
		"first 1s "+Call("ls", args{"path": "."}),
		"slow 40ms echo I looked at the directory. It holds:")},
	{demoSum, script(
		"first 1s "+Call("calculator", args{"expression": "24*60*60"}),
		"slow 40ms echo A day has this many seconds:")},
}

type args map[string]string

// demo is the demonstration with this look around as its first call.
func demo(look string) string {
	return script(
		"first 500ms think First I look around, then I hand out the work. => "+Calls(look, Call("calculator", args{"expression": "6*7"})),
		"first 500ms "+Calls(Task("researcher", demoResearch), Task("general", demoSum)),
		"slow 40ms echo Both sub-agents have reported. Each one worked in a thread and a workflow of its own, "+
			"and every step you saw was stored before the next one began. This is what they found:")
}

// script is Script without the prefix, as scriptOf returns it.
func script(steps ...string) string { return strings.TrimPrefix(Script(steps...), Prefix) }
