package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/spool-agents/spool/agent"
)

// walk visits the files below a folder in the order of their paths. Folders that only
// cost time are left out, unless they are wanted. What a link leads to is visited, too,
// unless it is visited under its own name.
type walk struct {
	w      *workspace
	ctx    context.Context
	wanted string
	// visit gets each file and link; again means that it is visited under its own name.
	visit func(p place, again bool) error
	left  leftOut
	roots []string // where the walk began, and where links led it
}

func (k *walk) from(at place) error {
	k.roots = append(k.roots, at.path)
	return k.folder(at)
}

func (k *walk) folder(at place) error {
	folder, entries, err := k.w.list(at)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	for _, e := range entries {
		if err := k.ctx.Err(); err != nil {
			return err
		}
		p := place{folder: folder, name: e.Name(), path: joinPath(at.path, e.Name()), shown: joinPath(at.shown, e.Name()), keys: k.w.isKey}
		if err := k.entry(p, e); err != nil {
			return err
		}
	}
	return nil
}

func (k *walk) entry(p place, e fs.DirEntry) error {
	switch costly := p.name == ".git" || p.name == "node_modules"; {
	case e.Type()&fs.ModeSymlink != 0:
		return k.link(p)
	case !e.IsDir():
		return k.visit(p, false)
	case costly && !strings.Contains(k.wanted, p.name):
		return nil
	}
	return k.below(p, k.folder)
}

// below walks a folder that may be unreadable, which does not end the walk.
func (k *walk) below(p place, into func(place) error) error {
	err := into(p)
	if errors.Is(err, fs.SkipAll) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if err != nil && !errors.Is(err, errHome) {
		k.left.add("unreadable", p.shown)
	}
	return nil
}

// link visits a link, and what it leads to.
func (k *walk) link(p place) error {
	to, err := k.w.find(p.shown, toRead)
	if err != nil {
		return k.visit(p, true) // it leads nowhere, or out of the workspace
	}
	defer to.close()
	again := slices.ContainsFunc(k.roots, func(root string) bool { return isBelow(to.path, root) })
	if err := k.visit(to, again); err != nil || again {
		return err
	}
	if slices.ContainsFunc(k.roots, func(root string) bool { return isBelow(root, to.path) }) {
		return nil // a circle
	}
	if info, err := to.folder.Lstat(to.name); err != nil || !info.IsDir() {
		return nil // what just vanished has nothing below it
	}
	return k.below(to, k.from)
}

// isBelow reports whether a path is a folder's or lies in it.
func isBelow(path, folder string) bool {
	return folder == "." || path == folder || strings.HasPrefix(path, folder+"/")
}

// leftOut is what a search did not look into, by the reason.
type leftOut struct {
	why   []string
	names map[string][]string
}

func (l *leftOut) add(why, name string) {
	if l.names == nil {
		l.names = map[string][]string{}
	}
	if l.names[why] == nil {
		l.why = append(l.why, why)
	}
	l.names[why] = append(l.names[why], shown(name))
}

// lines has a line for each reason.
func (l *leftOut) lines() (lines []string) {
	const most = 5
	for _, why := range l.why {
		names := l.names[why]
		text := strings.Join(names[:min(len(names), most)], ", ")
		if len(names) > most {
			text += fmt.Sprintf(" and %d more", len(names)-most)
		}
		lines = append(lines, fmt.Sprintf("[not searched, %s: %s]", why, text))
	}
	return lines
}

const (
	// longestPattern bounds each pattern, in bytes: of glob, of grep and of a rule.
	longestPattern = 1000
	// mostAlternatives bounds what the braces of a glob stand for: each is tried with
	// each file.
	mostAlternatives = 1000
	// mostInstructions bounds what a regular expression compiles to: each may be looked
	// at for each character. (x{1000}){1000} is short.
	mostInstructions = 10_000
	// shortLine is how long a line may be that is matched in one go.
	shortLine = 4 << 10
)

// boundPattern refuses a glob that would take too long. N pairs of braces with commas in
// them, nested or not, stand for at most as much as if each had as many commas.
func boundPattern(pattern string) error {
	braces, commas := float64(strings.Count(pattern, "{")), float64(strings.Count(pattern, ","))
	switch {
	case len(pattern) > longestPattern:
		return tooComplex("it has %d bytes, at most %d are possible", len(pattern), longestPattern)
	case braces > 0 && math.Pow(1+commas/braces, braces) > mostAlternatives:
		return tooComplex("its braces stand for more than %d patterns", mostAlternatives)
	}
	return nil
}

// compilePattern reads a regular expression that is quick enough.
func compilePattern(pattern string) (*regexp.Regexp, error) {
	if len(pattern) > longestPattern {
		return nil, tooComplex("it has %d bytes, at most %d are possible", len(pattern), longestPattern)
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err == nil {
		var program *syntax.Prog
		if program, err = syntax.Compile(parsed.Simplify()); err == nil && len(program.Inst) > mostInstructions {
			return nil, tooComplex("its repetitions make it too large")
		}
	}
	if err != nil {
		return nil, &toolError{agent.ErrInvalidInput, fmt.Sprintf("the pattern is not valid: %v", err)}
	}
	return regexp.Compile(pattern)
}

func tooComplex(format string, args ...any) error {
	return &toolError{agent.ErrInvalidInput, "the pattern is too complex: " + fmt.Sprintf(format, args...) + "; make several calls with simpler ones"}
}

// findIn is where a line matches, or nil. The search of a long one ends with ctx.
func findIn(ctx context.Context, re *regexp.Regexp, line string) []int {
	if len(line) <= shortLine {
		return re.FindStringIndex(line)
	}
	at := re.FindReaderIndex(&stopping{Reader: strings.NewReader(line), ctx: ctx})
	if ctx.Err() != nil {
		return nil
	}
	return at
}

// stopping is a text that ends with ctx.
type stopping struct {
	*strings.Reader
	ctx context.Context //nolint:containedctx // regexp takes a reader only
}

func (s *stopping) ReadRune() (rune, int, error) {
	if s.Len()%64 == 0 && s.ctx.Err() != nil {
		return 0, 0, io.EOF
	}
	return s.Reader.ReadRune()
}
