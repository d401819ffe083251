package layout

import (
	"go/ast"
	"testing"
)

// nondeterministic are calls whose answer differs between a run and its replay.
// workflowcheck does not see through interface values, so they are refused by
// name as well.
var nondeterministic = map[string]string{
	"time.Now": "workflow.Now", "time.Since": "workflow.Now", "time.Until": "workflow.Now", "time.Sleep": "workflow.Sleep",
	"time.After": "workflow.NewTimer", "time.AfterFunc": "workflow.NewTimer", "time.Tick": "workflow.Sleep",
	"time.NewTimer": "workflow.NewTimer", "time.NewTicker": "workflow.Sleep",
	"uuid.New": "a value that an activity returned", "uuid.NewString": "a value that an activity returned",
	"uuid.NewV7": "a value that an activity returned", "uuid.Must": "a value that an activity returned",
	"os.Getenv": "a value that an activity returned", "os.LookupEnv": "a value that an activity returned",
	"rand.Int": "workflow.SideEffect", "rand.IntN": "workflow.SideEffect", "rand.Intn": "workflow.SideEffect",
	"rand.Int64N": "workflow.SideEffect", "rand.Float64": "workflow.SideEffect", "rand.Read": "workflow.SideEffect",
	"maps.Keys": "slices.Sorted(maps.Keys(…))",
}

func TestWorkflowsAreDeterministic(t *testing.T) {
	found := 0
	for _, s := range sources(t, "workflows") {
		if s.test {
			continue
		}
		found++
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: go statement: use workflow.Go", s.fset.Position(n.Pos()))
			case *ast.SelectStmt:
				t.Errorf("%s: select: use workflow.NewSelector", s.fset.Position(n.Pos()))
			case *ast.SelectorExpr:
				if pkg, ok := n.X.(*ast.Ident); ok {
					if instead := nondeterministic[pkg.Name+"."+n.Sel.Name]; instead != "" {
						t.Errorf("%s: %s.%s: use %s", s.fset.Position(n.Pos()), pkg.Name, n.Sel.Name, instead)
					}
				}
			}
			return true
		})
	}
	if found == 0 {
		t.Error("no files in workflows")
	}
}

// The vocabulary has no clock: times are arguments.
func TestVocabularyHasNoClock(t *testing.T) {
	for _, s := range sources(t, "agent") {
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "time" && (sel.Sel.Name == "Now" || sel.Sel.Name == "Since") {
					t.Errorf("%s: time.%s: take the time as an argument", s.fset.Position(sel.Pos()), sel.Sel.Name)
				}
			}
			return true
		})
	}
}
