package terminal

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// What a person decides about is shown as it is: nothing is cut or dropped, and
// what a terminal would not show, or would show as something else, is written as
// an escape.

// NoName stands for the name of a tool that a model left out.
const NoName = "(no name)"

// CallText is the short form of a call for lines of progress: ls(path=.). What a
// person decides about is shown by WholeCall.
func CallText(name string, args json.RawMessage) string {
	name = cmp.Or(name, NoName)
	list, ok := arguments(args)
	if !ok {
		return Cut(Visible(name), 60) + "(" + Cut(Visible(plainText(args)), 60) + ")"
	}
	slices.SortStableFunc(list, func(a, b argument) int { return strings.Compare(a.name, b.name) })
	var parts []string
	for _, a := range list {
		parts = append(parts, Cut(Visible(a.name), 30)+"="+Cut(Visible(strings.Join(strings.Fields(a.value), " ")), 40))
	}
	return Cut(Cut(Visible(name), 60)+"("+strings.Join(parts, ", ")+")", 120)
}

// unseen reports whether a terminal shows a character as nothing, as a blank, or
// as an order to itself.
func unseen(r rune) bool {
	return !strconv.IsPrint(r) || r == '\u2800' || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// alike are letters of other scripts that pass for Latin ones.
const alike = "аеорсухіјѕһԁԛԝӏѵАВЕКМНОРСТУХІЈЅѴ" + "αονρυικΑΒΕΖΗΙΚΜΝΟΡΤΥΧ" + "օոսհ"

var (
	piled = regexp.MustCompile(`\pM{5,}`) // marks that cover what stands around them
	parts = regexp.MustCompile("[^\\s\"'`]+")
	words = regexp.MustCompile(`[\pL\pM]+`)
)

// disguised are the places of characters that a person takes for others: letters that
// look like Latin ones in a word with Latin letters, or as a whole word beside one, as in
// a host's name, and piles of marks. A text of one script has none.
func disguised(s string) map[int]bool {
	at := map[int]bool{}
	if !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return at
	}
	for _, run := range piled.FindAllStringIndex(s, -1) {
		for i := range s[run[0]:run[1]] {
			at[run[0]+i] = true
		}
	}
	latin := func(r rune) bool { return unicode.Is(unicode.Latin, r) }
	for _, p := range parts.FindAllStringIndex(s, -1) {
		part := s[p[0]:p[1]]
		if !strings.ContainsAny(part, alike) || !strings.ContainsFunc(part, latin) {
			continue
		}
		for _, w := range words.FindAllStringIndex(part, -1) {
			word := part[w[0]:w[1]]
			if !strings.ContainsFunc(word, latin) && strings.Trim(word, alike) != "" {
				continue
			}
			for i, r := range word {
				if strings.ContainsRune(alike, r) {
					at[p[0]+w[0]+i] = true
				}
			}
		}
	}
	return at
}

// padding is a run of blanks that is long enough to push what follows out of sight.
var padding = regexp.MustCompile(` {33,}`)

// Visible writes what cannot be seen in a line, or is taken for something else, as escapes
// such as \x1b or \u202e.
// Then backslashes are doubled, so that an escape can be told from its spelling.
func Visible(s string) string {
	if !veiled(s) {
		return s
	}
	var b strings.Builder
	other := disguised(s)
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\\':
			b.WriteString(`\\`)
		case unseen(r) || other[i]:
			b.WriteString(escape(r))
		default:
			b.WriteRune(r)
		}
	}
	return padding.ReplaceAllStringFunc(b.String(), func(run string) string { return fmt.Sprintf(`\x20{%d}`, len(run)) })
}

// VisibleLines is Visible for a text of several lines, which it keeps. One rule holds for
// all of them: a backslash means the same in each.
func VisibleLines(s string) []string {
	lines := strings.Split(s, "\n")
	hides := veiled(strings.ReplaceAll(s, "\n", ""))
	for i, line := range lines {
		if lines[i] = Visible(line); hides && lines[i] == line {
			lines[i] = strings.ReplaceAll(line, `\`, `\\`)
		}
	}
	return lines
}

// VisibleJSON writes what cannot be seen in a JSON document as escapes: it means the same.
func VisibleJSON(doc []byte) []byte {
	other := disguised(string(doc))
	if len(other) == 0 && !bytes.ContainsFunc(doc, hiddenInJSON) {
		return doc
	}
	out := make([]byte, 0, len(doc)+64)
	for i, r := range string(doc) {
		switch high, low := utf16.EncodeRune(r); {
		case !hiddenInJSON(r) && !other[i]:
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// hiddenInJSON leaves out what stands between values.
func hiddenInJSON(r rune) bool { return r > ' ' && unseen(r) }

// veiled reports whether Visible would change a text.
func veiled(s string) bool {
	return !utf8.ValidString(s) || strings.ContainsFunc(s, unseen) || padding.MatchString(s) || len(disguised(s)) > 0
}

func escape(r rune) string {
	quoted := strconv.QuoteRuneToASCII(r)
	return quoted[1 : len(quoted)-1]
}

// argument is one argument of a call, in the order and as often as it was given.
type argument struct{ name, value string }

// arguments takes a call's arguments apart; ok is false if they are no JSON object.
func arguments(raw json.RawMessage) (list []argument, ok bool) {
	var text string
	if json.Unmarshal(raw, &text) == nil { // arguments as JSON text
		raw = json.RawMessage(text)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, false
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, false
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil, false
		}
		a := argument{name: name.(string)}
		if json.Unmarshal(v, &a.value) != nil {
			var short bytes.Buffer
			_ = json.Compact(&short, v) // it was decoded just now
			a.value = short.String()
		}
		list = append(list, a)
	}
	_, err := dec.Token()
	return list, err == nil && !dec.More()
}

// WholeCall is a call as it will run, in lines: its tool, then every argument with
// all its lines. No line of a value can be taken for another argument, as those of
// a value with several lines begin with a bar.
func WholeCall(name string, args json.RawMessage) []string {
	lines := []string{Visible(name)}
	list, ok := arguments(args)
	if !ok {
		list = []argument{{"arguments that are no JSON object", plainText(args)}}
	}
	for _, a := range list {
		lines = append(lines, wholeArgument(a)...)
	}
	return lines
}

// plainText is what JSON text says, or the text itself.
func plainText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

func wholeArgument(a argument) []string {
	head := "  " + Visible(a.name) + ":"
	parts := VisibleLines(a.value)
	if len(parts) == 1 {
		if a.value == "" {
			return []string{head + ` ""`}
		}
		return []string{head + " " + parts[0]}
	}
	lines := []string{fmt.Sprintf("%s (%d lines)", head, len(parts))}
	for _, p := range parts {
		lines = append(lines, "    | "+p)
	}
	return lines
}
