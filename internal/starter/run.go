package starter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/spool-agents/spool"
	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/boot"
	"github.com/spool-agents/spool/memory"
)

// Exit codes.
const (
	exitDone      = 0
	exitFailed    = 1
	exitUsage     = 2
	exitNotFound  = 3
	exitConflict  = 4
	exitAway      = 5
	exitWaiting   = 6
	exitInterrupt = 130
)

// failure ends a command with a code. A failure without text was reported by the
// command itself.
type failure struct {
	code int
	err  error
}

// Error returns the text of the cause.
func (f *failure) Error() string {
	if f.err == nil {
		return fmt.Sprintf("exit code %d", f.code)
	}
	return f.err.Error()
}

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.err }

// ended is a failure that was reported already.
func ended(code int) error {
	if code == exitDone {
		return nil
	}
	return &failure{code: code}
}

// usage is a wrong command line: what is wrong, and what to do.
func usage(text string) error {
	return &failure{code: exitUsage, err: errors.New(text)}
}

// Run is the program: args without the program's name, env as KEY=VALUE. It
// returns the exit code.
func Run(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	boot.HideEnvironment() // commands of agents may run beside it
	a := newApp(env, stdin, stdout, stderr)
	defer a.close()
	code := a.run(ctx, args)
	if err := a.out.failed(); err != nil && code == exitDone {
		fmt.Fprintf(a.stderr, "%s: cannot write to stdout: %v\n", a.name, err)
		return exitFailed
	}
	return code
}

// run parses the command line and runs the command.
func (a *app) run(ctx context.Context, args []string) int {
	var cli grammar
	helped := -1
	parser, err := kong.New(&cli,
		kong.Name(a.name),
		kong.Description("Spool runs AI-agent conversations that cannot be lost, on Temporal."),
		kong.Writers(a.stdout, a.stderr),
		kong.Exit(func(code int) { helped = code; panic(stopParsing{}) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 100}),
		kong.Help(helpWithCodes),
		kong.Bind(a),
	)
	if err != nil {
		fmt.Fprintf(a.stderr, "%s: %v\n", a.name, err)
		return exitFailed
	}
	a.json = wantsJSON(args)
	for _, arg := range args {
		if !utf8.ValidString(arg) { // kong would replace what it cannot read
			return a.usageError(nil, fmt.Errorf("argument %q is not valid UTF-8", arg))
		}
	}
	kctx, err := parse(parser, args)
	if helped >= 0 {
		return helped
	}
	switch {
	case err != nil && a.out.failed() != nil: // the help could not be written
		return exitDone
	case err != nil:
		return a.usageError(kctx, err)
	}
	a.flags = cli.settings()
	a.json = cli.JSON
	if err := a.checkFlags(commandPath(kctx.Selected())); err != nil {
		return a.usageError(kctx, err)
	}
	ctx, stop := a.interruptible(ctx)
	defer stop()
	kctx.BindTo(ctx, (*context.Context)(nil))
	return a.exit(kctx.Run(ctx))
}

// wantsJSON finds --json also on a command line that cannot be parsed.
func wantsJSON(args []string) bool {
	for _, arg := range args {
		switch arg {
		case "--":
			return false
		case "--json":
			return true
		}
	}
	return false
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

func helpWithCodes(o kong.HelpOptions, k *kong.Context) error {
	if err := kong.DefaultHelpPrinter(o, k); err != nil {
		return err
	}
	if k.Selected() == nil {
		_, err := fmt.Fprint(k.Stdout, "\nExit codes: 0 done, 1 the turn or check failed, 2 usage, 3 not found, 4 busy, conflict or\n"+
			"already decided, 5 Temporal, every worker or the store is away, 6 waiting for a person,\n130 interrupted.\n")
		return err
	}
	return nil
}

// usageError reports a wrong command line.
func (a *app) usageError(k *kong.Context, err error) int {
	where := a.name
	if k != nil && k.Selected() != nil {
		where += " " + commandPath(k.Selected())
	}
	text := err.Error()
	if k != nil && k.Selected() != nil {
		text = strings.TrimPrefix(text, commandPath(k.Selected())+": ")
	}
	if strings.HasPrefix(text, "expected one of") && k != nil {
		text = "give a command: " + strings.Join(commandNames(k.Model.Node), ", ")
	}
	if strings.HasPrefix(text, "unexpected argument") && strings.HasSuffix(where, " send") {
		text += ": put the message into quotes, or give - and write it to stdin"
	}
	a.errorDocument(usage(text))
	fmt.Fprintf(a.stderr, "%s: %s\nSee %s --help.\n", where, visible(text), where)
	return exitUsage
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

// exit reports a command's error and returns its code.
func (a *app) exit(err error) int {
	if err == nil {
		return exitDone
	}
	var f *failure
	if errors.As(err, &f) && f.err == nil {
		return f.code
	}
	code := exitCode(err)
	a.errorDocument(err)
	fmt.Fprintf(a.stderr, "%s: %s\n", a.name, clean(err.Error()))
	return code
}

// errorDocument prints an error as the one document of --json.
func (a *app) errorDocument(err error) {
	if !a.json {
		return
	}
	doc := map[string]any{"code": codeName(err), "message": err.Error()}
	var p *spool.PendingError
	if errors.As(err, &p) {
		if len(p.Pending) > 0 {
			doc["pending"] = p.Pending
		}
		if len(p.Questions) > 0 {
			doc["questions"] = p.Questions
		}
	}
	_ = a.printJSON(map[string]any{"error": doc}) // failed writes are reported at the end
}

func codeName(err error) string {
	switch {
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.Is(err, memory.ErrBroken):
		return string(agent.CodeUnavailable)
	case exitCode(err) == exitUsage:
		return string(agent.CodeInvalid)
	}
	return string(agent.CodeOf(err))
}

// exitCode maps an error to the code of the program.
func exitCode(err error) int {
	var f *failure
	if errors.As(err, &f) {
		return f.code
	}
	switch {
	case errors.Is(err, context.Canceled):
		return exitInterrupt
	case errors.Is(err, memory.ErrBroken):
		return exitAway
	}
	switch agent.CodeOf(err) {
	case agent.CodeInvalid:
		return exitUsage
	case agent.CodeNotFound:
		return exitNotFound
	case agent.CodeConflict, agent.CodeLimit, agent.CodeForeign:
		return exitConflict
	case agent.CodeUnavailable:
		return exitAway
	}
	return exitFailed
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
