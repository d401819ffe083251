package layout

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// documents are the files whose commands, links and symbols are checked.
func documents(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, name := range files(t) {
		if strings.HasSuffix(name, ".md") && (!strings.Contains(name, "/") || strings.HasPrefix(name, "docs/")) {
			out = append(out, name)
		}
	}
	return out
}

var makeTarget = regexp.MustCompile(`(?m)^([a-z]+):`)

func TestDocumentedMakeTargetsExist(t *testing.T) {
	targets := map[string]bool{}
	for _, m := range makeTarget.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets[m[1]] = true
	}
	call := regexp.MustCompile("(?m)(?:`|^)make ([a-z]+)")
	found := 0
	for _, name := range documents(t) {
		for _, m := range call.FindAllStringSubmatch(read(t, name), -1) {
			found++
			if !targets[m[1]] {
				t.Errorf("%s: make %s is not a target of the Makefile", name, m[1])
			}
		}
	}
	if found == 0 {
		t.Error("no document mentions a make target")
	}
}

// Every variable that a document or an example file names is read by the program.
func TestDocumentedVariablesExist(t *testing.T) {
	var b strings.Builder
	for _, s := range sources(t, ".") {
		if !within(s.dir, "internal/layout") {
			b.WriteString(s.text)
		}
	}
	code := b.String()
	variable := regexp.MustCompile(`\b(?:SPOOL|OPENAI|TAVILY|DEVSERVER)_[A-Z_]+[A-Z]\b`)
	for _, name := range append(documents(t), ".env.example", "docker-compose.yml", ".ci/test") {
		for _, v := range variable.FindAllString(read(t, name), -1) {
			if !strings.Contains(code, v) {
				t.Errorf("%s names %s, which no code reads", name, v)
			}
		}
	}
}

func TestDocumentLinksExist(t *testing.T) {
	all := map[string]bool{}
	for _, name := range files(t) {
		for ; name != "."; name = path.Dir(name) {
			all[name] = true
		}
	}
	link := regexp.MustCompile(`\]\(([^)#\s]+)(?:#[^)]*)?\)`)
	for _, name := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, name), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if target := path.Join(path.Dir(name), m[1]); !all[target] {
				t.Errorf("%s links to %s, which does not exist", name, m[1])
			}
		}
	}
}

// symbols collects what the packages declare: "pkg.Name", "pkg.Type.Member".
// Packages in folders below another one are also known by their path.
func symbols(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, s := range sources(t, ".") {
		if s.test {
			continue
		}
		pkg := s.file.Name.Name
		if pkg == "main" {
			pkg = path.Base(s.dir)
		}
		for _, d := range s.file.Decls {
			for _, name := range declared(d) {
				out[pkg+"."+name] = true
			}
		}
	}
	return out
}

// declared lists the names of a declaration, with the members of its types.
func declared(d ast.Decl) []string {
	var out []string
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil && len(d.Recv.List) == 1 {
			name = typeName(d.Recv.List[0].Type) + "." + name
		}
		out = append(out, name)
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					out = append(out, n.Name)
				}
			case *ast.TypeSpec:
				out = append(out, s.Name.Name)
				var members *ast.FieldList
				switch typ := s.Type.(type) {
				case *ast.StructType:
					members = typ.Fields
				case *ast.InterfaceType:
					members = typ.Methods
				default:
					continue
				}
				for _, f := range members.List {
					for _, n := range f.Names {
						out = append(out, s.Name.Name+"."+n.Name)
					}
				}
			}
		}
	}
	return out
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// testNames are all test functions of both modules.
func testNames(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, s := range sources(t, ".") {
		if !s.test {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && token.IsExported(f.Name.Name) {
				out = append(out, f.Name.Name)
			}
		}
	}
	return out
}

// begins reports whether a name begins with words: TestRow1 is no beginning of
// TestRow11_Report, TestRow11 is.
func begins(name, words string) bool {
	rest, ok := strings.CutPrefix(name, words)
	return ok && (rest == "" || !unicode.IsLower(rune(rest[0])) && !unicode.IsDigit(rune(rest[0])))
}

// rowsOf are the rows of the checklist that a cell of the design map names, such as
// "9" or "10–12, 20"; none if it names something else.
func rowsOf(cell string) (rows []int) {
	for _, part := range strings.Split(cell, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "–")
		first, err := strconv.Atoi(from)
		if err != nil {
			return nil
		}
		last := first
		if isRange {
			if last, err = strconv.Atoi(to); err != nil {
				return nil
			}
		}
		for n := first; n <= last; n++ {
			rows = append(rows, n)
		}
	}
	return rows
}

// rowTest is the row of the checklist, or the kind of failure, that a test's name begins
// with.
var rowTest = regexp.MustCompile(`^Test(?:Row0*([0-9]+)|Fault_([A-F][0-9]+))(?:_|$)`)

// The design map leads from a promise to the code and to its test. Each of the 104 rows of
// the checklist and each kind of failure is in it, with all tests that have its name.
func TestDesignMapHolds(t *testing.T) {
	have, tests, suite := symbols(t), testNames(t), suiteRules(t)
	quoted := regexp.MustCompile("`([^`]+)`")
	symbol := regexp.MustCompile(`^[a-z]+(\.[A-Za-z]+)+$`)
	named := map[string][]string{} // tests by row or fault
	for _, name := range tests {
		if m := rowTest.FindStringSubmatch(name); m != nil {
			named[m[1]+m[2]] = append(named[m[1]+m[2]], name)
		}
	}
	covered, list := map[string]bool{}, ""
	for i, line := range strings.Split(read(t, "docs/design-map.md"), "\n") {
		if name, ok := strings.CutPrefix(line, "## "); ok {
			list = name
		}
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|--") || strings.HasPrefix(line, "| ---") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 4 {
			t.Errorf("docs/design-map.md:%d has %d cells, want row, name, symbol, test", i+1, len(cells))
			continue
		}
		var ids []string
		switch list {
		case "The checklist":
			for _, n := range rowsOf(cells[0]) {
				ids = append(ids, strconv.Itoa(n))
			}
		case "Kinds of failure":
			ids = strings.Split(strings.ReplaceAll(cells[0], " ", ""), ",")
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[2], -1) {
			if symbol.MatchString(m[1]) && !have[m[1]] {
				t.Errorf("docs/design-map.md:%d: there is no %s", i+1, m[1])
			}
		}
		var cited []string
		for _, m := range quoted.FindAllStringSubmatch(cells[3], -1) {
			if cited = append(cited, m[1]); strings.HasPrefix(m[1], "Test") {
				if !slices.ContainsFunc(tests, func(name string) bool { return begins(name, m[1]) }) {
					t.Errorf("docs/design-map.md:%d: no test's name begins with %s", i+1, m[1])
				}
			} else if !suite[m[1]] {
				t.Errorf("docs/design-map.md:%d: the suite has no rule %q", i+1, m[1])
			}
		}
		if len(cited) == 0 && strings.TrimSpace(cells[3]) != "test" {
			t.Errorf("docs/design-map.md:%d names no test", i+1)
		}
		for _, id := range ids {
			covered[id] = true
			for _, name := range named[id] {
				if !slices.ContainsFunc(cited, func(c string) bool { return begins(name, c) }) {
					t.Errorf("docs/design-map.md:%d lacks %s, whose name says that it shows %s", i+1, name, id)
				}
			}
		}
	}
	for n := 1; n <= 104; n++ {
		if !covered[strconv.Itoa(n)] {
			t.Errorf("docs/design-map.md lacks row %d of the checklist", n)
		}
	}
	for letter, last := range map[string]int{"A": 19, "B": 7, "C": 13, "D": 13, "E": 11, "F": 7} {
		for n := 1; n <= last; n++ {
			if id := letter + strconv.Itoa(n); !covered[id] {
				t.Errorf("docs/design-map.md lacks the kind of failure %s", id)
			}
		}
	}
	for id := range named {
		if !covered[id] {
			t.Errorf("docs/design-map.md has no line for %s, which %s names", id, named[id][0])
		}
	}
}

// Each threat of the security page has a control and tests, which exist.
func TestEachThreatHasATest(t *testing.T) {
	tables := strings.Split(read(t, "docs/security.md"), "| threat | control | test |\n|---|---|---|\n")
	if len(tables) < 2 {
		t.Fatal("docs/security.md has no table of threats")
	}
	tests, quoted := testNames(t), regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")
	for _, table := range tables[1:] {
		for line := range strings.SplitSeq(table, "\n") {
			if !strings.HasPrefix(line, "|") {
				break
			}
			cells := strings.Split(strings.Trim(line, "|"), "|")
			named := quoted.FindAllStringSubmatch(cells[len(cells)-1], -1)
			if len(cells) != 3 || len(named) == 0 && strings.TrimSpace(cells[2]) != "–" {
				t.Errorf("docs/security.md: want threat, control and a test: %s", line)
			}
			for _, m := range named {
				if !slices.Contains(tests, m[1]) {
					t.Errorf("docs/security.md: there is no %s", m[1])
				}
			}
		}
	}
}

// suiteRules are the sentences of the conformance suites of the store and of the port.
func suiteRules(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, s := range append(sources(t, "memory/memorytest"), sources(t, "memory/port")...) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					out[text] = true
				}
			}
			return true
		})
	}
	return out
}
