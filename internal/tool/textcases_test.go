package tool_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/tool"
)

func given(t *testing.T, name string) string {
	t.Helper()
	return content(t, filepath.Join("testdata/cases", name))
}

// inUTF16 is a text in UTF-16.
func inUTF16(text string, big bool) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(text)) {
		if big {
			b.Write([]byte{byte(u >> 8), byte(u)})
		} else {
			b.Write([]byte{byte(u), byte(u >> 8)})
		}
	}
	return b.String()
}

// A text that declares another encoding than the file it replaces is written in that; what an
// encoding does not have is refused, and never becomes something else.
func TestCase_E02_NewDeclarationsCount(t *testing.T) {
	r, dir := files(t)
	for name, c := range map[string]struct{ file, old, new, want, said string }{
		"edited to UTF-8":    {"# coding: latin-1\nx='\xe9'\n", "latin-1", "utf-8", "# coding: utf-8\nx='é'\n", "written in utf-8 now"},
		"written as UTF-8":   {"# coding: latin-1\nx='\xe9'\n", "", "# coding: utf-8\nx='é'\n", "# coding: utf-8\nx='é'\n", "written in utf-8 now"},
		"to another one":     {"<meta charset=big5>\xa4\xa4", "big5", "gbk", "<meta charset=gbk>\xd6\xd0", "written in gbk now"},
		"UTF-8 stays":        {"é a\n", "a", "<meta charset=latin1>", "é <meta charset=latin1>\n", "Edited"},
		"a mark stays":       {"\ufeff# coding: latin-1\né", "latin-1", "koi8-r", "\ufeff# coding: koi8-r\né", "Edited"},
		"no entities":        {"# coding: shift_jis\n\x93\xfa", "日", "é", "# coding: shift_jis\n\x93\xfa", "shift_jis has no character 'é'"},
		"no entities in GBK": {"<meta charset=gb2312>\xd6\xd0", "中", "😀", "<meta charset=gb2312>\xd6\xd0", "gbk has no character"},
		"UTF-8 rather":       {"# coding: shift_jis\n\x93\xfa", "", "# coding: shift_jis\né", "# coding: shift_jis\né", "The file is UTF-8 now: shift_jis has no character"},
	} {
		path := put(t, dir, "f", c.file)
		with, args := "file_edit", m{"path": "f", "old": c.old, "new": c.new}
		if c.old == "" {
			with, args = "file_write", m{"path": "f", "content": c.new}
		}
		assert.Contains(t, call(t, r, dir, with, args).Content, c.said, name)
		assert.Equal(t, c.want, content(t, path), name)
	}
}

// Line ends, mark and encoding of a file are kept by an edit.
func TestCase_E02_EditsKeepHowAFileIsWritten(t *testing.T) {
	r, dir := files(t)
	for name, c := range map[string]struct{ file, old, new, want string }{
		"the case":             {given(t, "crlf2.txt"), "beta", "beta\nbeta2", "alpha\r\nbeta\r\nbeta2\r\ngamma\r\n"},
		"several lines":        {"a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\nz\n", "x\r\ny\r\nz\r\nc\r\n"},
		"CR in the arguments":  {"a\r\nb\r\n", "a\r\nb", "c\r\nd", "c\r\nd\r\n"},
		"CR in one only":       {"a\nb\n", "a\r\nb", "c\r\nd", "c\nd\n"},
		"a line is removed":    {"a\r\nb\r\nc\r\n", "b\n", "", "a\r\nc\r\n"},
		"mixed: as around it":  {"a\r\nb\nc\nd\r\n", "c", "c\nc2", "a\r\nb\nc\nc2\nd\r\n"},
		"old Mac":              {"a\rb\rc\r", "b\nc", "b\nx\nc", "a\rb\rx\rc\r"},
		"mark":                 {"\ufeffa\nb\n", "a\n", "c\n", "\ufeffc\nb\n"},
		"UTF-16LE":             {"\xff\xfe" + inUTF16("é\r\nb\r\n", false), "b", "b\nü", "\xff\xfe" + inUTF16("é\r\nb\r\nü\r\n", false)},
		"UTF-16BE":             {"\xfe\xff" + inUTF16("日本\n", true), "日", "月", "\xfe\xff" + inUTF16("月本\n", true)},
		"UTF-16 without mark":  {inUTF16("some text\n", false), "some", "any", inUTF16("any text\n", false)},
		"with a zero low byte": {inUTF16("some text of Ādaži and more of it, in Latvian letters\n", true), "some", "any", inUTF16("any text of Ādaži and more of it, in Latvian letters\n", true)},
		"Latin-1":              {"caf\xe9\nb\n", "café", "cafés à", "caf\xe9s \xe0\nb\n"},
		"windows-1252":         {"\x93q\x94 \x80 5 \x81\n", "5", "6", "\x93q\x94 \x80 6 \x81\n"},
		"declared in XML":      {"<?xml version='1.0' encoding='ISO-8859-2'?>\n<a>\xb3</a>\n", "<a>ł", "<a>łł", "<?xml version='1.0' encoding='ISO-8859-2'?>\n<a>\xb3\xb3</a>\n"},
		"declared for Python":  {"# -*- coding: koi8-r -*-\nx = '\xd4'\n", "x = 'т'", "y = 'т'", "# -*- coding: koi8-r -*-\ny = '\xd4'\n"},
		"UTF-8 with bad bytes": {"zoë 日本 \xff\xfe\nb\n", "b", "c", "zoë 日本 \xff\xfe\nc\n"},
		"beside bad bytes":     {"zoë 日本 \xff\xfe b\n", "日本 \ufffd b", "日本 \ufffd c", "zoë 日本 \xff\xfe c\n"},
	} {
		path := put(t, dir, "f", c.file)
		succeeded(t, call(t, r, dir, "file_edit", m{"path": "f", "old": c.old, "new": c.new}))
		assert.Equal(t, c.want, content(t, path), name)
	}
	path := put(t, dir, "latin", "caf\xe9\n")
	failed(t, call(t, r, dir, "file_edit", m{"path": "latin", "old": "café", "new": "日"}), agent.ErrInvalidInput, `windows-1252 has no character '日'`)
	assert.Equal(t, "caf\xe9\n", content(t, path))
	put(t, dir, "torn", "\xff\xfe"+inUTF16("abc", false)+"x")
	failed(t, call(t, r, dir, "file_edit", m{"path": "torn", "old": "abc", "new": "d"}), agent.ErrInvalidInput, "has bytes that are not")
}

func TestCase_E02_WritesKeepHowAFileIsWritten(t *testing.T) {
	r, dir := files(t)
	for name, c := range map[string]struct{ file, text, want, says string }{
		"Windows line ends": {"a\r\nb\r\n", "x\ny\n", "x\r\ny\r\n", "keeps its line ends"},
		"mark":              {"\ufeffa\n", "b\n", "\ufeffb\n", "with a byte order mark"},
		"mark, given again": {"\ufeffa\n", "\ufeffb\n", "\ufeffb\n", ""},
		"UTF-16":            {"\xff\xfe" + inUTF16("a\n", false), "ü\n", "\xff\xfe" + inUTF16("ü\n", false), "UTF-16LE"},
		"Latin-1":           {"\xe9\n", "ü\n", "\xfc\n", "windows-1252"},
		"what does not fit": {"\xe9\n", "日\n", "日\n", "The file is UTF-8 now: windows-1252 has no character '日'."},
		"a new text":        {"", "x\r\ny\n", "x\r\ny\n", ""},
		"nothing special":   {"a\nb\n", "x\ny\n", "x\ny\n", ""},
		"was binary":        {"\x00\x01\r\n", "x\n", "x\n", ""},
	} {
		path := put(t, dir, "f", c.file)
		first := succeeded(t, call(t, r, dir, "file_write", m{"path": "f", "content": c.text}))
		assert.Equal(t, c.want, content(t, path), name)
		assert.Contains(t, first, c.says, name)
		if c.says == "" {
			assert.Regexp(t, `to f\.$`, first, name)
		}
		succeeded(t, call(t, r, dir, "file_write", m{"path": "f", "content": c.text}))
		assert.Equal(t, c.want, content(t, path), "%s, a second time", name)
	}
}

// Search, read and edit see the same text.
func TestCase_E02_SearchSeesWhatTheReaderSees(t *testing.T) {
	r, dir := files(t)
	put(t, dir, "a", "\ufeffone\r\ntwo\r\n")
	put(t, dir, "b", "\xff\xfe"+inUTF16("one\r\n日本\r\n", false))
	put(t, dir, "c", "caf\xe9\nr\x00est"[:5])
	put(t, dir, "d", "on\x0ce\none\x1b[0m\n")
	assert.Equal(t, "a:1: one\nb:1: one\nd:1: one\nd:2: one\n", succeeded(t, call(t, r, dir, "grep", m{"pattern": "^one$"})))
	assert.Equal(t, "b:2: 日本\nc:1: café\n", succeeded(t, call(t, r, dir, "grep", m{"pattern": "^日本$|é$"})))
	assert.Equal(t, "one\ntwo\n", succeeded(t, call(t, r, dir, "file_read", m{"path": "a"})))
	assert.Equal(t, "one\n日本\n[the file is written in UTF-16LE; file_edit and file_write keep that]", succeeded(t, call(t, r, dir, "file_read", m{"path": "b"})))
}

// What is shown can be edited.
func TestCase_E10_WhatIsShownCanBeEdited(t *testing.T) {
	r, dir := files(t)
	for name, c := range map[string]struct{ file, old, new, want, says string }{
		"the case":           {given(t, "formfeed.c"), "int a;\nint b;", "int a;\nint c;", "int a;\x0c\nint c;\n", ""},
		"what is dropped":    {"int a;\x0c\nint b;\n", "a;\nint b", "x", "int x;\n", " What was replaced held control characters"},
		"vertical tab":       {"a\x0bb\nc\n", "ab\nc", "ab\nd", "a\x0bb\nd\n", ""},
		"named by the model": {"a\x0cb\n", "a\x0cb", "a\x0cc", "a\x0cc\n", ""},
		"colours":            {"\x1b[31mred\x1b[0m text\n", "red text", "red words", "\x1b[31mred\x1b[0m words\n", ""},
		"NEL, DEL":           {"a\u0085b\x7fc\n", "abc", "abcd", "a\u0085b\x7fcd\n", ""},
		"line separator":     {"a\u2028b\n", "a\u2028b", "a\u2028c", "a\u2028c\n", ""},
		"control character":  {"a\x01\nb\n", "\x01", "", "a\nb\n", ""},
	} {
		path := put(t, dir, "f", c.file)
		if name != "named by the model" && name != "control character" {
			assert.Contains(t, succeeded(t, call(t, r, dir, "file_read", m{"path": "f"})), c.old, name)
		}
		out := succeeded(t, call(t, r, dir, "file_edit", m{"path": "f", "old": c.old, "new": c.new}))
		assert.Equal(t, c.want, content(t, path), name)
		assert.Contains(t, out, c.says, name)
	}
	put(t, dir, "twice", "a\x0cb ab")
	failed(t, call(t, r, dir, "file_edit", m{"path": "twice", "old": "ab", "new": "x"}), agent.ErrValidationFailed, "occurs 2 times")
}

// What a search left out is said, and can be reached.
func TestCase_E11_LeftOutIsSaid(t *testing.T) {
	r, dir := files(t)
	put(t, dir, "small", "needle\n")
	put(t, dir, "sub/large.log", strings.Repeat("hay\n", 3<<20)+"needle\n")
	for i := range 7 {
		put(t, dir, fmt.Sprintf("bin%d", i), "needle\x00")
	}
	out := succeeded(t, call(t, r, dir, "grep", m{"pattern": "needle"}))
	assert.Equal(t, "small:1: needle\n[not searched, binary: bin0, bin1, bin2, bin3, bin4 and 2 more]\n"+
		"[not searched, larger than 10 MB (give the path of one to search it): sub/large.log]", out)
	assert.Equal(t, "sub/large.log:3145729: needle\n", succeeded(t, call(t, r, dir, "grep", m{"pattern": "needle", "path": "sub/large.log"})))
	failed(t, call(t, r, dir, "grep", m{"pattern": "needle", "path": "bin0"}), agent.ErrInvalidInput, "is a binary file")
}

// A match in a very long line is shown, and every part of the line can be read.
func TestCase_E12_LongLines(t *testing.T) {
	r, dir := files(t)
	line := strings.Repeat("é", 200_000) + "needle" + strings.Repeat("日", 200_000)
	put(t, dir, "min.js", "first\n"+line+"\nlast\n")
	out := succeeded(t, call(t, r, dir, "grep", m{"pattern": "needle"}))
	assert.Contains(t, out, "min.js:2 (column 200001 of 400006): …éé")
	assert.Contains(t, out, "éneedle日")
	assert.Less(t, len(out), 700)
	assert.Contains(t, succeeded(t, call(t, r, dir, "grep", m{"pattern": "日$"})), "日\n")
	assert.Contains(t, succeeded(t, call(t, r, dir, "grep", m{"pattern": "^é"})), "(column 1 of 400006): é")

	assert.True(t, strings.HasPrefix(succeeded(t, call(t, r, dir, "file_read", m{"path": "min.js", "offset": 2, "column": 200_001})), "needle日"))
	var whole strings.Builder
	for column, offset := 1, 2; offset == 2; {
		part := succeeded(t, call(t, r, dir, "file_read", m{"path": "min.js", "offset": 2, "limit": 1, "column": column}))
		at := strings.LastIndex(part, "\n[")
		whole.WriteString(part[:at])
		if n, _ := fmt.Sscanf(part[at:], "\n[a part of line 2 of 3; continue with offset 2 and column %d]", &column); n == 0 {
			_, err := fmt.Sscanf(part[at:], "\n[lines 2 to 2 of 3; continue with offset %d]", &offset)
			require.NoError(t, err)
		}
	}
	assert.Equal(t, line, whole.String())
	failed(t, call(t, r, dir, "file_read", m{"path": "min.js", "column": 7}), agent.ErrInvalidInput, "line 1 of min.js has 6 characters, so there is no column 7")
}

// Names are taken as they are before they are patterns, links are followed, and other
// forms of the same name are found by every tool alike.
func TestCase_E14_Names(t *testing.T) {
	r, base := files(t)
	dir := filepath.Join(base, "ws")
	nfd := norm.NFD.String("Übung/é.txt")
	for _, p := range []string{"app/[id]/page.tsx", "app/i/page.tsx", "app/[...all]/a.ts", "app/[[...opt]]/a.ts", "app/(group)/@slot/a.ts", "lib/real.ts", "lib/v2/x.ts", nfd, "caf\xe9.txt", "d/caf\xe9/in.txt", "Read Me.md", "a{b.txt"} {
		put(t, dir, p, "needle\n")
	}
	require.NoError(t, os.Symlink("../lib", filepath.Join(dir, "app/linked")))
	require.NoError(t, os.Symlink("v2", filepath.Join(dir, "lib/latest")))
	require.NoError(t, os.Symlink("..", filepath.Join(dir, "app/up")))
	require.NoError(t, os.Symlink("../..", filepath.Join(dir, "app/out")))
	put(t, base, "secret.ts", "needle")
	for pattern, want := range map[string]string{
		"app/[id]/page.tsx":    "app/[id]/page.tsx",
		"app/[id]/*":           "app/[id]/page.tsx",
		"**/[id]/*.tsx":        "app/[id]/page.tsx",
		"app/[a-i]/*.tsx":      "app/i/page.tsx",
		"*/[id]/[a-z]*.tsx":    "app/[id]/page.tsx\napp/i/page.tsx",
		"app/[...all]/*.ts":    "app/[...all]/a.ts",
		"**/[[...opt]]/*":      "app/[[...opt]]/a.ts",
		"app/(group)/@slot/**": "app/(group)/@slot/a.ts",
		"app/linked/*.ts":      "app/linked/real.ts",
		"app/*/real.ts":        "app/linked/real.ts",
		"lib/latest/*":         "lib/latest/x.ts",
		"**/x.ts":              "lib/v2/x.ts",
		"Übung/*.txt":          "Übung/" + norm.NFD.String("é.txt"),
		"**/é.txt":             nfd,
		"a{b.txt":              "a{b.txt",
		`"caf\xe9.txt"`:        `"caf\xe9.txt"`,
		`caf*.txt`:             `"caf\xe9.txt"`,
		"caf?/*":               "No file matches caf?/*.",
		"d/caf?/*":             `"d/caf\xe9/in.txt"`,
	} {
		out := call(t, r, dir, "glob", m{"pattern": pattern})
		assert.Equal(t, want, out.Content, pattern)
	}
	for _, path := range []string{"app/[id]/page.tsx", "app/linked/real.ts", "lib/latest/x.ts", "Übung/é.txt", nfd, `"caf\xe9.txt"`, "caf\ufffd.txt", `d/"caf\xe9"/in.txt`, `"d/caf\xe9/in.txt"`} {
		assert.Equal(t, "needle\n", succeeded(t, call(t, r, dir, "file_read", m{"path": path})), path)
		assert.Contains(t, succeeded(t, call(t, r, dir, "grep", m{"pattern": "needle", "path": path})), ":1: needle", path)
		succeeded(t, call(t, r, dir, "file_edit", m{"path": path, "old": "needle", "new": "needles"}))
		succeeded(t, call(t, r, dir, "file_write", m{"path": path, "content": "needle\n"}))
	}
	out := succeeded(t, call(t, r, dir, "grep", m{"pattern": "needle", "path": "app"}))
	assert.Contains(t, out, "app/linked/real.ts:1: needle\n")
	assert.NotContains(t, out, "secret")
	assert.NotContains(t, out, "app/up/")
	assert.Equal(t, 1, strings.Count(succeeded(t, call(t, r, dir, "grep", m{"pattern": "needle"})), "real.ts"), "once, under its own name")
	for folder, want := range map[string]string{"app/[id]": "page.tsx", "app/linked": "real.ts", "Übung": norm.NFD.String("é.txt"), `d/"caf\xe9"`: "in.txt", `"d/caf\xe9"`: "in.txt"} {
		assert.Contains(t, succeeded(t, call(t, r, dir, "ls", m{"path": folder})), want+"  7 bytes\n", folder)
	}
	out = succeeded(t, call(t, r, dir, "ls", m{"path": "."}))
	assert.Contains(t, out, `"caf\xe9.txt"`)
	for name, near := range map[string]string{"read me.md": "Read Me.md", "Read\u202fMe.md": "Read Me.md", "Read_Me.md": "Read Me.md", "APP/[id]/page.tsx": "app"} {
		failed(t, call(t, r, dir, "file_read", m{"path": name}), agent.ErrNotFound, "does not exist; did you mean "+near)
	}
	entries, err := os.ReadDir(filepath.Join(dir, norm.NFD.String("Übung")))
	require.NoError(t, err)
	assert.Len(t, entries, 1, "no second file in another form")
}

// A rule about a name holds for each form of it.
func TestCase_E14_RulesHoldForEachForm(t *testing.T) {
	r, dir := files(t)
	nfd := norm.NFD.String("é.txt")
	put(t, dir, nfd, "x")
	policy := map[string]string{"file_read(é.txt)": "deny"}
	for _, path := range []string{"é.txt", nfd, fmt.Sprintf("%q", nfd), fmt.Sprintf("%+q", nfd)} {
		args := fmt.Sprintf(`{"path":%q}`, path)
		for _, folder := range []string{dir, filepath.Join(dir, "of", "another", "worker")} {
			assert.Equal(t, agent.GateDeny, r.Gate("file_read", agent.ToolRun{Args: []byte(args), Workdir: folder}, policy), path)
		}
	}
}

func TestCase_N01_WebPagesAreDecoded(t *testing.T) {
	late := given(t, "late.json")
	pages := map[string]struct{ kind, body, want string }{
		"/late":     {"application/json", late, "Zoë – 日本"},
		"/text":     {"text/plain", strings.Repeat("x", 3000) + "é", "xé"},
		"/header":   {"text/plain; charset=windows-1251", "\xef\xf0\xe8\xe2\xe5\xf2", "привет"},
		"/latin":    {"text/plain", "caf\xe9", "café"},
		"/mark":     {"text/plain; charset=iso-8859-1", "\ufeffZoë", "Zoë"},
		"/utf16":    {"text/plain", "\xff\xfe" + inUTF16("Zoë", false), "Zoë"},
		"/meta":     {"text/html", "<html><head><meta charset=\"windows-1251\"></head><body>\xef\xf0\xe8\xe2\xe5\xf2</body></html>", "привет"},
		"/httpmeta": {"text/html", "<meta http-equiv=content-type content='text/html; charset=euc-jp'><p>\xc6\xfc\xcb\xdc", "日本"},
		"/xml":      {"application/xml", "<?xml version=\"1.0\" encoding=\"Shift_JIS\"?><a>\x93\xfa\x96{</a>", "日本"},
		"/unknown":  {"text/plain; charset=x-none", "Zoë", "Zoë"},
		"/html":     {"text/html", "<html><body>" + strings.Repeat("<p>x</p>", 300) + "Zoë</body></html>", "Zoë"},
	}
	handlers := map[string]http.HandlerFunc{}
	for path, c := range pages {
		handlers[path] = page(c.kind, c.body)
	}
	s := site(t, handlers)
	r := registry(t, tool.WebFetch(true))
	for path, c := range pages {
		assert.Contains(t, succeeded(t, call(t, r, "", "web_fetch", m{"url": s.URL + path})), c.want, path)
	}
}
