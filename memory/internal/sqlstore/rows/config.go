package rows

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
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
func (u *Unit) KeepConfig(c agent.SpecialistAgentConfig) string {
	body := Must(Encode(c))
	sum := sha256.Sum256([]byte(body))
	hash := hex.EncodeToString(sum[:16])
	u.Exec(`INSERT INTO configs (hash, body) VALUES (?, ?) ON CONFLICT (hash) DO NOTHING`, hash, body)
	return hash
}

// Config reads a snapshot; the empty hash is the empty snapshot.
func (s *Store) Config(q Rower, hash string) agent.SpecialistAgentConfig {
	var c agent.SpecialistAgentConfig
	if hash == "" {
		return c
	}
	if c, ok := s.configs.get(hash); ok {
		return c.Clone()
	}
	var body string
	if !q.One(`SELECT body FROM configs WHERE hash = ?`, hash).Into(&body) {
		Check(memory.Damaged("", "the configuration "+hash, errors.New("it is missing")))
		return c
	}
	Check(memory.Damaged("", "the configuration "+hash, json.Unmarshal([]byte(body), &c)))
	s.configs.put(hash, c)
	return c.Clone()
}
