package tool

import (
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/text/unicode/norm"
)

// mostNear bounds the names that are offered for one that is not there.
const mostNear = 3

// shown is a name as it is listed: one that holds line ends, other control
// characters or bad bytes must not look like several, or like another.
func shown(name string) string {
	if strings.IndexFunc(name, unicode.IsControl) < 0 && strings.ToValidUTF8(name, "") == name {
		return name
	}
	return strconv.Quote(name)
}

// sameName looks in a folder for a name that is not there as it is written: in another
// Unicode form, or as shown lists one that is no text. "" = there is none, or several.
func sameName(in *os.Root, name string) (found string) {
	if strings.IndexFunc(name, func(r rune) bool { return r > unicode.MaxASCII || r == '"' }) < 0 {
		return ""
	}
	same := func(s string) string { return norm.NFC.String(strings.ToValidUTF8(s, "\uFFFD")) }
	for _, entry := range namesIn(in) {
		if shown(entry) == name || same(entry) == same(name) {
			if found != "" {
				return ""
			}
			found = entry
		}
	}
	return found
}

func namesIn(folder *os.Root) []string {
	dir, err := folder.Open(".")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(-1) // those that could be read
	return names
}

type missing struct{ near []string }

// notThere offers the names of a folder that differ in case, blanks and signs only.
func notThere(in *os.Root, name string) error {
	m := &missing{}
	for _, entry := range namesIn(in) {
		if len(m.near) < mostNear && lettersOf(entry) == lettersOf(name) {
			m.near = append(m.near, shown(entry))
		}
	}
	return &fs.PathError{Op: "open", Path: name, Err: m}
}

func (m *missing) Error() string {
	return strings.TrimSuffix("does not exist; did you mean "+strings.Join(m.near, " or "), "; did you mean ")
}

// Is makes it the error of any file that is not there.
func (m *missing) Is(err error) bool { return err == fs.ErrNotExist }

// lettersOf is what of a name tells it from others: letters and digits.
func lettersOf(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '.' {
			return unicode.ToLower(r)
		}
		return -1
	}, norm.NFKC.String(name))
}

// namePattern matches paths, the characters of a pattern taken as they are first.
type namePattern struct{ literal, pattern string }

var (
	class    = regexp.MustCompile(`\[[^\]/,{}\\]*\]`)
	brackets = regexp.MustCompile(`[\[\]]`)
	braces   = regexp.MustCompile(`[\[\]{}]`)
	special  = regexp.MustCompile(`[\[\]{}*?\\]`)
)

// newPattern is a pattern below a folder. Of one that is not valid each bracket and brace
// is a part of a name.
func newPattern(folder, pattern string) (p namePattern, valid bool) {
	if folder = special.ReplaceAllString(norm.NFC.String(folder), `\$0`) + "/"; folder == "./" {
		folder = ""
	}
	pattern = norm.NFC.String(pattern)
	if !doublestar.ValidatePattern(pattern) {
		p.literal = folder + braces.ReplaceAllString(pattern, `\$0`)
		return p, false
	}
	p.literal = folder + brackets.ReplaceAllString(pattern, `\$0`)
	// Of several brackets one may be a part of a name, and another a class.
	p.pattern = folder + class.ReplaceAllStringFunc(pattern, func(s string) string {
		return "{" + s + "," + special.ReplaceAllString(s, `\$0`) + "}"
	})
	return p, true
}

// matches reports whether a path matches, and whether its brackets are those of the
// pattern.
func (p namePattern) matches(path string) (is, literal bool) {
	path = norm.NFC.String(path)
	literal = doublestar.MatchUnvalidated(p.literal, path)
	return literal || doublestar.MatchUnvalidated(p.pattern, path), literal
}
