package config_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/spool-agents/spool/internal/config"
)

const someKey = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

func (w *world) keys() string {
	w.t.Helper()
	for _, s := range w.must().Explain() {
		if s.Name == config.EncryptionKeys {
			return s.Value
		}
	}
	return "not explained"
}

// Keys are given or lie in a file; either way the client of Temporal uses them, also
// one for another server, and only their ids are shown.
func TestEncryptionKeys(t *testing.T) {
	w := newWorld(t)
	assert.Empty(t, w.keys())
	w.env["SPOOL_ENCRYPTION_KEYS"] = "2026-11=" + someKey
	assert.Equal(t, "2026-11 encrypts", w.keys())
	c := w.must()
	c.UseServer("127.0.0.1:1", "other")
	p, err := c.Temporal.DataConverter.ToPayload("x")
	require.NoError(t, err)
	assert.Equal(t, "2026-11", string(p.GetMetadata()["encryption-key-id"]))

	delete(w.env, "SPOOL_ENCRYPTION_KEYS")
	w.yamlHome("encryptionKeys: file:keys\n")
	path := filepath.Join(w.home, "keys")
	w.write(path, "a="+someKey+"\n") // readable by others
	_, err = w.load()
	assert.ErrorContains(t, err, "chmod 600")
	assert.ErrorContains(t, err, "openssl rand -base64 32")
	assert.NotContains(t, err.Error(), someKey[:6])
}
