package rows

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/memory"
)

// configCacheSize bounds the parsed snapshots kept in memory.
const configCacheSize = 256

// configCache holds snapshots by the hash of their text, so an entry can never
// be out of date.
type configCache struct {
	mu    sync.Mutex
	known map[string]agent.SpecialistAgentConfig
}

func (c *configCache) get(hash string) (agent.SpecialistAgentConfig, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.known[hash]
	return v, ok
}

func (c *configCache) put(hash string, v agent.SpecialistAgentConfig) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= configCacheSize {
		c.known = map[string]agent.SpecialistAgentConfig{}
	}
	c.known[hash] = v
}

// KeepConfig stores a snapshot and returns its hash.
func (u *Unit) KeepConfig(c agent.SpecialistAgentConfig) (string, error) {
	body, err := Encode(c)
	if err != nil {
		return "", err
	}
	hash := configHash(body)
	return hash, u.Exec(`INSERT INTO configs (hash, body) VALUES (?, ?) ON CONFLICT (hash) DO NOTHING`, hash, body)
}

func configHash(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:16])
}

// Config reads a snapshot; the empty hash is the empty snapshot.
func (s *Store) Config(q Rower, hash string) (agent.SpecialistAgentConfig, error) {
	var c agent.SpecialistAgentConfig
	if hash == "" {
		return c, nil
	}
	if c, ok := s.configs.get(hash); ok {
		return CopyConfig(c), nil
	}
	var body string
	err := q.Row(`SELECT body FROM configs WHERE hash = ?`, hash).Scan(&body)
	if NoRows(err) {
		return c, memory.Damaged("", "the configuration "+hash, errors.New("it is missing"))
	}
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal([]byte(body), &c); err != nil {
		return c, memory.Damaged("", "the configuration "+hash, err)
	}
	s.configs.put(hash, c)
	return CopyConfig(c), nil
}

// CopyConfig copies what a caller could change through the value.
func CopyConfig(c agent.SpecialistAgentConfig) agent.SpecialistAgentConfig {
	c.Tools = slices.Clone(c.Tools)
	c.Approval = maps.Clone(c.Approval)
	c.Bounds = slices.Clone(c.Bounds)
	c.Temperature = copyOf(c.Temperature)
	c.TopP = copyOf(c.TopP)
	c.MaxTokens = copyOf(c.MaxTokens)
	return c
}

func copyOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
