package textfile_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spool-agents/spool/internal/tool/textfile"
)

// Whatever a file holds: it becomes text that drives no terminal, each piece of what is
// shown stands somewhere in the file, and what is written back are the bytes it had.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{"", "plain\n", "a\r\nb\rc\n", "\ufeffmark\r\n", "\xff\xfea\x00\r\x00\n\x00", "\xfe\xff\x00a", "caf\xe9 \x81", "a\x0cb\x1b[31mc\x1b]0;t\x07d",
		"zo\u00eb \xff\xfe\xfd x", "<?xml version='1.0' encoding='Shift_JIS'?>\x93\xfa", "# coding: latin-1\n\xe9", "\x1b\x1b[0m[1m", "\r\x00\n", "\xff\xfe\x00\x00a\x00\x00\x00", "old\rmac\r"} {
		f.Add([]byte(s), "")
		f.Add([]byte(s), "iso-2022-jp")
	}
	f.Fuzz(func(t *testing.T, data []byte, declared string) {
		text := textfile.Decode(data, declared)
		if !text.Foreign() && !text.Exact(data) {
			t.Fatalf("UTF-8 is not written back as it was: %q", data)
		}
		seen := textfile.See(text.Value)
		if !utf8.ValidString(seen.Text) || textfile.Clean(seen.Text) != seen.Text {
			t.Fatalf("%q is shown as %q", text.Value, seen.Text)
		}
		last := 0
		for at, r := range seen.Text {
			from, to := seen.Range(at, at+utf8.RuneLen(r))
			if from < last || to <= from || to > len(text.Value) {
				t.Fatalf("%q of %q is at %d to %d, after %d", r, text.Value, from, to, last)
			}
			if again := textfile.See(text.Value[from:to]).Text; r != '\n' && r != '\r' && r != utf8.RuneError && again != string(r) {
				t.Fatalf("%q of %q is %q", r, text.Value, again)
			}
			last = to
		}
		if from, to := seen.Range(0, len(seen.Text)); textfile.See(text.Value[:from]).Text != "" || strings.TrimSpace(textfile.See(text.Value[to:]).Text) != "" {
			t.Fatalf("something of %q is shown outside of %d to %d", text.Value, from, to)
		}
	})
}
