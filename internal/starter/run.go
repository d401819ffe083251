package starter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/boot"
	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/internal/terminal"
	"github.com/spool-agents/spool/internal/usage"
)

// Run is the program: args without the program's name, env as KEY=VALUE. It
// returns the exit code.
func Run(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	boot.HideEnvironment() // commands of agents may run beside it
	a := newApp(env, stdin, stdout, stderr)
	defer a.close()
	code := a.run(ctx, args)
	if err := a.Out.Failed(); err != nil && code == exit.Done {
		a.Progress("%s: cannot write to stdout: %v", a.Name, err)
		return exit.Failed
	}
	return code
}

func (a *app) run(ctx context.Context, args []string) int {
	var cli grammar
	helped := -1
	parser, err := kong.New(&cli,
		kong.Name(a.Name), lists,
		kong.Description("Spool runs AI-agent conversations that cannot be lost, on Temporal."),
		kong.Writers(a.Out, a.Err),
		kong.Exit(func(code int) { helped = code; panic(stopParsing{}) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 100}),
		kong.Help(func(o kong.HelpOptions, k *kong.Context) error {
			command := ""
			if n := k.Selected(); n != nil {
				command = commandPath(n)
			}
			return usage.Help(command, strings.Fields(uses[command]))(o, k)
		}),
		kong.Bind(a, a.Printer, func(args []string) int { return a.run(ctx, args) }),
	)
	if err != nil {
		a.Progress("%s: %v", a.Name, err)
		return exit.Failed
	}
	if slices.Equal(args, []string{"--version"}) {
		args = []string{"version"}
	}
	a.JSON = slices.Contains(args, "--json") // also if it cannot be parsed
	for _, arg := range args {
		if !utf8.ValidString(arg) { // kong would replace what it cannot read
			return a.usageError(nil, fmt.Errorf("argument %q is not valid UTF-8", arg))
		}
	}
	kctx, err := parse(parser, args)
	switch {
	case helped >= 0:
		return helped
	case err != nil && a.Out.Failed() != nil: // the help could not be written
		return exit.Done
	case err != nil:
		return a.usageError(kctx, err)
	}
	a.flags, a.JSON = cli.settings(), cli.JSON
	maps.Copy(a.flags, a.base)
	if err := a.checkFlags(commandPath(kctx.Selected())); err != nil {
		return a.usageError(kctx, err)
	}
	ctx, stop := a.interruptible(ctx)
	defer stop()
	kctx.BindTo(ctx, (*context.Context)(nil))
	kctx.Bind(parser)
	if err = kctx.Run(ctx); err != nil && !exit.Reported(err) {
		a.errorDocument(err)
		a.Progress("%s: %v", a.Name, err)
	}
	return exit.Code(err)
}

// stopParsing unwinds kong after --help.
type stopParsing struct{}

func parse(parser *kong.Kong, args []string) (k *kong.Context, err error) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(stopParsing); !ok {
				panic(r)
			}
		}
	}()
	k, err = parser.Parse(args)
	var bad *kong.ParseError
	if errors.As(err, &bad) {
		k = bad.Context
	}
	return k, err
}

func (a *app) usageError(k *kong.Context, err error) int {
	where, text := a.Name, agent.MaskPasswords(err.Error())
	if k != nil && k.Selected() != nil {
		command := commandPath(k.Selected())
		where, text = where+" "+command, strings.TrimPrefix(text, command+": ")
	}
	if strings.HasPrefix(text, "expected one of") && k != nil {
		text = "give a command: " + strings.Join(commandNames(k.Model.Node), ", ")
	}
	if strings.HasPrefix(text, "unexpected argument") && strings.HasSuffix(where, " send") {
		text += ": put the message into quotes, or give - and write it to stdin"
	}
	a.errorDocument(exit.Misuse("%s", text))
	a.Progress("%s: %s\nSee %s --help.", where, terminal.Visible(text), where)
	return exit.Usage
}

// commandPath is a command as it is typed: "sessions export".
func commandPath(n *kong.Node) string {
	if n.Parent == nil || n.Parent.Parent == nil {
		return n.Name
	}
	return commandPath(n.Parent) + " " + n.Name
}

func commandNames(root *kong.Node) []string {
	var names []string
	for _, n := range root.Children {
		if !n.Hidden {
			names = append(names, n.Name)
		}
	}
	return names
}

// errorDocument prints an error as the one document of --json.
func (a *app) errorDocument(err error) {
	if !a.JSON {
		return
	}
	doc := map[string]any{"code": exit.Name(err), "message": agent.MaskPasswords(err.Error())}
	var p *spool.PendingError
	if errors.As(err, &p) {
		if len(p.Pending) > 0 {
			doc["pending"] = p.Pending
		}
		if len(p.Questions) > 0 {
			doc["questions"] = p.Questions
		}
	}
	_ = a.Document(map[string]any{"error": doc}) // failed writes are reported at the end
}

// programName is how the user calls the program, for hints that can be pasted.
func programName(arg0 string) string {
	base := strings.TrimSuffix(filepath.Base(arg0), ".exe")
	switch {
	case arg0 == "" || strings.HasSuffix(base, ".test"):
		return "starter"
	case strings.Contains(filepath.ToSlash(arg0), "/go-build"):
		return "go run ./" + base
	case strings.ContainsAny(arg0, " \t\n'\"$&;()<>|*?\\") && filepath.Separator == '/':
		return "'" + strings.ReplaceAll(arg0, "'", `'\''`) + "'"
	}
	return arg0
}
