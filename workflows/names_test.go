package workflows_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/converter"

	"github.com/spool-agents/spool/internal/contract"
)

// Every workflow type, activity, signal and search attribute of the contract is in a
// recorded history, and so is the version of the state that a run hands to the next:
// what no history holds could be changed without a test that fails.
func TestEveryNameIsInARecordedHistory(t *testing.T) {
	seen := map[string]bool{}
	files, err := filepath.Glob("testdata/histories/*.json")
	require.NoError(t, err)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		var h historypb.History
		require.NoError(t, temporalproto.CustomJSONUnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, &h), f)
		for _, e := range h.Events {
			seen[e.GetWorkflowExecutionStartedEventAttributes().GetWorkflowType().GetName()] = true
			seen[e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName()] = true
			seen[e.GetWorkflowExecutionSignaledEventAttributes().GetSignalName()] = true
			seen[localActivity(t, e.GetMarkerRecordedEventAttributes().GetDetails()["data"])] = true
			for name := range e.GetUpsertWorkflowSearchAttributesEventAttributes().GetSearchAttributes().GetIndexedFields() {
				seen[name] = true
			}
			seen[carried(t, e.GetWorkflowExecutionStartedEventAttributes().GetInput())] = true
		}
	}
	for _, name := range append(pinnedNames(t), append(contract.SearchAttributes, fmt.Sprint("state version ", contract.StateVersion))...) {
		require.True(t, seen[name], "no recorded history holds %s: add a scenario to internal/e2e/golden_test.go", name)
	}
}

// carried names the version of the state that a run began with.
func carried(t *testing.T, input *commonpb.Payloads) string {
	t.Helper()
	var in contract.TurnInput
	for _, p := range input.GetPayloads() {
		if string(p.GetMetadata()["encoding"]) == converter.MetadataEncodingJSON {
			require.NoError(t, json.Unmarshal(p.Data, &in))
		}
	}
	if in.Carry == nil {
		return ""
	}
	return fmt.Sprint("state version ", in.Carry.Version)
}

// localActivity is the name in the marker of a local activity, "" if it is encrypted.
func localActivity(t *testing.T, data *commonpb.Payloads) string {
	t.Helper()
	var marker struct{ ActivityType string }
	for _, p := range data.GetPayloads() {
		if string(p.GetMetadata()["encoding"]) == converter.MetadataEncodingJSON {
			require.NoError(t, json.Unmarshal(p.Data, &marker))
		}
	}
	return marker.ActivityType
}

// pinnedNames are the constants of the contract that name workflows, signals and
// activities, as its source has them.
func pinnedNames(t *testing.T) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../internal/contract/contract.go", nil, parser.ParseComments)
	require.NoError(t, err)
	about := regexp.MustCompile(`^(Workflow types|Signals|Activities that|Local activities)`)
	for _, d := range file.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST || !about.MatchString(group.Doc.Text()) {
			continue
		}
		for _, s := range group.Specs {
			name, err := strconv.Unquote(s.(*ast.ValueSpec).Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			names = append(names, name)
		}
	}
	require.Greater(t, len(names), 18)
	return names
}
