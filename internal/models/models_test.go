package models

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/agent"
)

// What the built-in table says of models as providers name them.
func TestBuiltInTable(t *testing.T) {
	table, err := Load(t.TempDir())
	require.NoError(t, err)
	for name, window := range map[string]int64{
		"gpt-4o-mini": 128000, "gpt-4o-2024-08-06": 128000, "openai/gpt-4o": 128000, "gpt-4": 8192, "gpt-4-0613": 8192,
		"gpt-4-turbo-preview": 128000, "gpt-5-mini": 400000, "o3-mini": 200000, "anthropic/claude-sonnet-4.5": 200000,
		"claude-3-5-sonnet-latest": 200000, "models/gemini-2.5-flash": 1048576, "deepseek-chat": 131072, "MISTRAL-large-latest": 262144,
		"gpt-6.1-sol": 1050000, "gpt-5.4-mini-2026-03-17": 400000, "anthropic/claude-opus-5.5": 1000000, "claude-haiku-4-5-20251001": 200000,
		"gemini-3.8-flash": 1048576, "deepseek-v4-pro": 1000000, "kimi-k3": 1048576, "grok-4.6": 500000, "grok-4-0709": 256000, "glm-4.6": 204800,
		"no-such-model": 0,
	} {
		require.Equal(t, window, table.Lookup(name).Window, name)
	}
	require.Equal(t, agent.Price{Input: 0.15, Cached: 0.075, Output: 0.6}, table.Lookup("gpt-4o-mini-2024-07-18").Price)
	require.Equal(t, agent.Price{Input: 2.5, Cached: 1.25, Output: 10}, table.Lookup("gpt-4o").Price)
	require.Equal(t, agent.Price{Input: 2, Cached: 0.2, Output: 10}, table.Lookup("gpt-6-sol").Price)
	require.Equal(t, agent.Price{Input: 2, Cached: 0.1, Output: 10}, table.Lookup("gpt-6.1-sol").Price)
	require.Equal(t, agent.Price{Input: 5, Cached: 0.5, Output: 25}, table.Lookup("anthropic/claude-opus-4.5").Price)
	require.Equal(t, agent.Price{Input: 15, Cached: 1.5, Output: 75}, table.Lookup("claude-opus-4-1").Price)
	require.Equal(t, agent.Price{Input: 4, Cached: 0.2, Output: 20}, table.Lookup("claude-opus-5-5").Price)
	require.Equal(t, agent.Price{Input: 5, Cached: 0.5, Output: 25}, table.Lookup("claude-opus-5").Price)
}

// A user's rows come before settings, and these before the built-in table; each
// value is taken from the first row that states it.
func TestUsersRowsComeFirst(t *testing.T) {
	home := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(home, File), []byte(`
models:
  - match: gpt-4o*
    price: {input: 1, output: 2}
  - {match: my-*-model, window: 4096, price: {input: 0, output: 0}}
`), 0o600))
	table, err := Load(home, Row{Match: "*", Window: 50000, Price: &agent.Price{Input: 7, Output: 8}})
	require.NoError(t, err)
	require.Equal(t, agent.ModelInfo{Window: 50000, MaxOutput: 16384, Price: agent.Price{Input: 1, Output: 2}, Images: true}, table.Lookup("gpt-4o-mini"))
	require.False(t, table.Lookup("o3-mini").Images)
	require.True(t, table.Lookup("o3").Images)
	require.Equal(t, agent.ModelInfo{Window: 4096}, table.Lookup("maker/my-own-model@provider"), "a price of 0 is a price")
	require.Equal(t, agent.ModelInfo{Window: 50000, Price: agent.Price{Input: 7, Output: 8}}, table.Lookup("unknown"))
}

// A wrong table is refused with the row that is wrong.
func TestWrongTable(t *testing.T) {
	for text, want := range map[string]string{
		"models:\n  - {window: 5000}":                                                         "row 1 has no match",
		"models:\n  - {match: x, window: -1}":                                                 "row 1 (x) has a negative number",
		"models:\n  - {match: x, windwo: 5000}":                                               "windwo",
		"models:\n  - {match: x, window: 10}":                                                 "256 is the least",
		"models:\n  - {match: x, price: {input: cheap}}":                                      "input",
		"providers:\n  x: {baseUrl: nowhere}":                                                 "provider x has no baseUrl",
		"providers:\n  a@b: {baseUrl: 'http://x/v1'}":                                         "a name has no @",
		"models:\n  - {match: x}\n\n  - {window: 300}":                                        ":4: no table of models: row 2 has no match",
		"models: []\n---\nproviders: {}":                                                      "2 YAML documents",
		"providers:\n  x:\n    baseUrl: http://h/v1\n    apiKeyEnv: sk-proj-abc":              ":2: no table of models: provider x: apiKeyEnv is no name of an environment variable",
		"providers:\n  x: {baseUrl: 'http://h', apiKeyEnv: abcdefghijklmnopqrstuvwx12345678}": "keep the key itself out of the file",
	} {
		home := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(home, File), []byte(text), 0o600))
		_, err := Load(home)
		require.ErrorContains(t, err, want)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	}
}

// Names that providers give with an @ are looked up as what they are.
func TestLookupOfNamesWithAnAt(t *testing.T) {
	home := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(home, File), []byte("models: [{match: llama-9*, window: 4321}, {match: plain, window: 777}]\nproviders:\n  p: {baseUrl: 'http://h/v1'}\n"), 0o600))
	table, err := Load(home)
	require.NoError(t, err)
	for name, window := range map[string]int64{"claude-3-5-sonnet@20240620": 200000, "@cf/meta/llama-9b": 4321, "@cf/meta/llama-9b@p": 4321, "workers-ai/@cf/meta/llama-9b": 4321, "plain@p": 777, "plain@latest": 777, "plain@other@": 777} {
		require.Equal(t, window, table.Lookup(name).Window, name)
	}
	require.Equal(t, filepath.Join(home, File)+":3", table.Providers["p"].Source)
}

// A table is read however an editor saves it.
func TestCase_B01_TablesAsEditorsSaveThem(t *testing.T) {
	given, err := os.ReadFile("testdata/cases/models-bom.yaml")
	require.NoError(t, err)
	for _, text := range []string{string(given), "models:\r\n  - {match: stub, window: 9999}\r\n", "--- \nmodels:\n  - match: stub\n    window:\t9999\n...\n", "\xff\xfem\x00o\x00d\x00e\x00l\x00s\x00:\x00 \x00[\x00{\x00m\x00a\x00t\x00c\x00h\x00:\x00 \x00s\x00t\x00u\x00b\x00,\x00 \x00w\x00i\x00n\x00d\x00o\x00w\x00:\x00 \x009\x009\x009\x009\x00}\x00]\x00"} {
		home := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(home, File), []byte(text), 0o600))
		table, err := Load(home)
		require.NoError(t, err, "%q", text)
		require.EqualValues(t, 9999, table.Lookup("stub").Window, "%q", text)
	}
	home := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(home, File), []byte("models:\n  - {match: caf\xe9}\n"), 0o600))
	_, err = Load(home)
	require.ErrorContains(t, err, "not valid UTF-8, see line 2")
}

// What a program states comes after home's table and before the built-in one.
func TestRowsOfAProgram(t *testing.T) {
	home := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(home, File), []byte("models: [{match: gpt-4o, window: 1000}]"), 0o600))
	table, err := Load(home, Row{Match: "gpt-4o", Window: 2000, Price: &agent.Price{Input: 7}}, Row{Match: "ours-*", Window: 3000})
	require.NoError(t, err)
	require.Equal(t, int64(1000), table.Lookup("gpt-4o").Window)
	require.Equal(t, 7.0, table.Lookup("gpt-4o").Price.Input)
	require.Equal(t, int64(3000), table.Lookup("ours-2").Window)
	_, err = Load("", Row{Window: 3000})
	require.ErrorContains(t, err, "a row of models has no match")
	t.Chdir(home)
	table, err = Load("")
	require.NoError(t, err)
	require.NotEqual(t, int64(1000), table.Lookup("gpt-4o").Window, "no home is not the working directory")
}
