package agent

import "unicode/utf8"

// EstimateTokens guesses how many tokens a text is, without a vocabulary: every
// provider has its own, and what is decided here (does a conversation fit?) leaves
// a margin. It follows what the vocabularies in use have in common: a word with
// its space is about one token, digits go by threes, punctuation by twos, a run of
// one character is cheap, scripts other than Latin cost more. Prose, code and JSON
// come out within 20 % of OpenAI's counts; providers' own counts then correct it
// .
func EstimateTokens(s string) int {
	quarters := 0 // of a token
	for i := 0; i < len(s); {
		c := s[i]
		n := i
		switch class := classOf(c); class {
		case letter:
			for n++; n < len(s) && classOf(s[n]) == letter && (!upper(s[n]) || upper(s[n-1])); n++ {
			}
			quarters += 4 + 4*max(0, n-i-5)/6
			if i > 0 && (classOf(s[i-1]) == letter || classOf(s[i-1]) == digit) {
				quarters += 2 // a piece of what is no word
			}
		case digit:
			for n++; n < len(s) && classOf(s[n]) == digit; n++ {
			}
			quarters += 4 * ((n - i + 2) / 3)
		case space:
			for n++; n < len(s) && s[n] == c; n++ {
			}
			if c != ' ' || n-i > 1 { // one space belongs to the next word
				quarters += 3 + (n-i)/32
			}
		case mark:
			for n++; n < len(s) && s[n] == c; n++ {
			}
			quarters += 2 + (n-i)/12 + min(n-i-1, 2)
		case other:
			r, size := utf8.DecodeRuneInString(s[i:])
			n += size
			quarters += foreign(r)
		}
		i = n
	}
	return (quarters + 3) / 4
}

type class int

const (
	letter class = iota
	digit
	space
	mark
	other
)

func classOf(c byte) class {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		return letter
	case c >= '0' && c <= '9':
		return digit
	case c == ' ', c == '\n', c == '\t', c == '\r':
		return space
	case c < utf8.RuneSelf:
		return mark
	}
	return other
}

func upper(c byte) bool { return c >= 'A' && c <= 'Z' }

// foreign is what a character beyond ASCII costs, in quarters of a token.
func foreign(r rune) int {
	switch {
	case r == utf8.RuneError:
		return 4
	case r >= 0x1F000: // emoji, rare characters
		return 8
	case r >= 0x2E80: // Chinese, Japanese, Korean
		return 4
	case r >= 0x0900: // Indic, Thai and others; symbols
		return 3
	case r >= 0x0370: // Greek, Cyrillic, Hebrew, Arabic
		return 2
	}
	return 3 // accented Latin: it breaks a word in two
}

// What a message, a call and an image cost beside their text, in tokens.
const (
	messageTokens = 4
	callTokens    = 8
	imageTokens   = 1000
)

// MessageTokens guesses what a message costs a model.
func MessageTokens(m Message) int {
	n := messageTokens + EstimateTokens(m.Content.Value)
	for _, p := range m.Content.Parts {
		n += EstimateTokens(p.Text)
		if p.ImageURL != nil {
			n += imageTokens
		}
	}
	for _, c := range m.ToolCalls {
		n += callTokens + EstimateTokens(c.Function.Name) + EstimateTokens(c.Function.Arguments)
	}
	return n
}

// ImageTokens is the part of RequestTokens that images have: a guess for the large
// ones, as models differ by a factor of thirty.
func ImageTokens(r ModelRequest) int {
	n := 0
	for _, m := range r.Messages {
		for _, p := range m.Content.Parts {
			if p.ImageURL != nil {
				n += imageTokens
			}
		}
	}
	return n
}

// ToolTokens guesses what offering a tool costs.
func ToolTokens(t ToolSpec) int {
	return callTokens + EstimateTokens(t.Name) + EstimateTokens(t.Description) + EstimateTokens(string(t.Schema))
}

// RequestTokens guesses what a request costs.
func RequestTokens(r ModelRequest) int {
	n := 0
	for _, m := range r.Messages {
		n += MessageTokens(m)
	}
	for _, t := range r.Tools {
		n += ToolTokens(t)
	}
	return n
}
