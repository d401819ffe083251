package starter

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/exit"
	"github.com/spool-agents/spool/internal/trust"
)

const oneServer = `{"mcpServers": {"one": {"command": "nothing-of-this-name"}}}`

// A person agrees to the bytes that were shown: what took their place meanwhile waits.
func TestAPersonAgreesToWhatWasShown(t *testing.T) {
	b := newBench(t)
	project := filepath.Join(b.home, "project")
	b.write("project/.mcp.json", oneServer)
	agreed := func() bool {
		f, err := trust.Read(project, ".mcp.json")
		require.NoError(t, err)
		return trust.Open(b.home).Agreed(f)
	}
	for _, answer := range []string{"n\r", "\r", "yess\r", "\x04", "\x1b[200~y\x1b[201~\r"} {
		d := sit(t)
		d.draws(b, "trust", project)
		d.sees("1 file to agree to, 1 of them with rules, settings or servers that allow more")
		d.sees("[y/N] ")
		d.sees("then Enter")
		d.types(answer)
		d.ends(exit.Waiting)
		require.False(t, agreed(), "%q is no yes", answer)
	}
	d := sit(t)
	d.types("y\r") // before the question stands there
	d.start(b, "trust", project)
	d.sees(`MCP server "one" runs "nothing-of-this-name"`)
	d.sees("[y/N] ")
	b.write("project/.mcp.json", strings.Replace(oneServer, "nothing", "something", 1))
	d.types("y\r")
	d.sees("agreed, for home")
	d.ends(exit.Done)
	assert.False(t, agreed(), "what was not shown")
	b.write("project/.mcp.json", oneServer)
	assert.True(t, agreed())
}

// What is wrong in a folder's file stops nothing, and trust says all of it.
func TestTrustShowsWhatIsWrongInAFile(t *testing.T) {
	b := newBench(t)
	b.write("project/spool.yaml", "colour: red\nmaxSteps: many\n")
	r := b.run("trust", filepath.Join(b.home, "project"), "--yes")
	assert.Equal(t, exit.Done, r.code, r.errout)
	assert.Contains(t, r.out, "does not count")
	assert.Contains(t, r.out, `setting \"colour\" does not exist`)
	assert.Contains(t, r.out, `maxSteps \"many\"`)
	assert.Contains(t, r.errout, "nothing here waits")
}

// Without a terminal it takes --yes, and JSON says the same in ASCII.
func TestTrustWithoutATerminal(t *testing.T) {
	b := newBench(t)
	project := filepath.Join(b.home, "project")
	b.write("project/.mcp.json", strings.Replace(oneServer, "one", "o\u202ene", 1))
	b.write("project/spool.yaml", "store: memory")
	b.write("mcp.json", oneServer)
	r := b.run("trust", project, "--json")
	assert.Equal(t, exit.Waiting, r.code)
	assert.Regexp(t, `^[ -~\n]*$`, r.out)
	files := r.json(t)["files"].([]any)
	require.Len(t, files, 3)
	assert.Equal(t, []any{`store: "memory"`}, files[0].(map[string]any)["allows"])
	assert.Equal(t, exit.Waiting, b.run("trust", project).code)
	assert.NoFileExists(t, trust.Path(b.home))

	r = b.run("trust", project, "--json", "--yes")
	assert.Equal(t, exit.Done, r.code, r.errout)
	assert.Equal(t, true, r.json(t)["agrees"])
	r = b.run("trust", project)
	assert.Equal(t, exit.Done, r.code)
	assert.Contains(t, r.errout, "nothing here waits")
	assert.Equal(t, exit.Done, b.run("trust", project, "--forget").code)
	assert.Equal(t, exit.Waiting, b.run("trust", project).code)
	assert.Equal(t, exit.NotFound, b.run("trust", project, "--forget").code)
	assert.Equal(t, exit.NotFound, b.run("trust", filepath.Join(b.home, "nowhere")).code)
	assert.Equal(t, exit.Usage, b.run("trust", "--yes", "--forget").code)
	b.write("trust.json", "{broken")
	r = b.run("trust", project, "--yes")
	assert.Equal(t, exit.Usage, r.code)
	assert.Contains(t, r.errout, "mend it, or remove it and agree again")
}

// What could not be shown is not agreed to.
func TestNothingIsAgreedToUnseen(t *testing.T) {
	b := newBench(t)
	b.write("mcp.json", oneServer)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	for _, args := range [][]string{{"trust", "--yes"}, {"trust", "--yes", "--json"}} {
		assert.NotEqual(t, exit.Done, Run(t.Context(), args, b.env(), strings.NewReader(""), full, io.Discard))
		assert.NoFileExists(t, trust.Path(b.home))
	}
}
