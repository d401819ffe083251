package tool

import (
	"context"
	"fmt"
	"io"
	"math"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/spool-agents/spool/agent"
)

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

// ReadRune reads the next character.
func (s *stopping) ReadRune() (rune, int, error) {
	if s.Len()%64 == 0 && s.ctx.Err() != nil {
		return 0, 0, io.EOF
	}
	return s.Reader.ReadRune()
}
