package boot

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spool-agents/spool/agent"
	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/template"
)

// Kind is what a worker answers with, as it was when it started.
type Kind struct {
	Model string `json:"model"`
	// Provider is a name in models.yaml, else the host of the base URL, or demo.
	Provider string `json:"provider"`
	// Agents is a digest of all agents; Version the commit of the build.
	Agents  string `json:"agents"`
	Version string `json:"version"`
}

// String is a kind for people.
func (k Kind) String() string {
	return fmt.Sprintf("model %s of %s, agents %s, version %s", k.Model, k.Provider, k.Agents, k.Version)
}

const demoProvider = "demo"

// Identity is PID@HOST@KIND, the name under which a worker polls Temporal, by which
// others know what it answers with. It holds no secret, and is short: it stands in most
// events of a history.
func Identity(cfg config.Config, env func(string) string) string {
	k := Kind{Model: cfg.Model, Provider: demoProvider, Version: buildID()}
	if known, err := LoadModels(cfg, env); err == nil { // else the worker does not start
		at, _ := known.Table.Route(cfg.Model, "")
		p := known.Provider(at.Provider)
		if u, err := url.Parse(p.URL); err == nil && p.URL != "" {
			k.Provider = cmp.Or(p.Name, u.Host)
		}
	}
	catalog, _ := template.Load(Folders(cfg))
	list := catalog.List()
	for i := range list {
		list[i].Source = "" // the same agents may lie elsewhere
	}
	raw, _ := json.Marshal(list)
	sum := sha256.Sum256(raw)
	k.Agents = hex.EncodeToString(sum[:2])
	host, _ := os.Hostname()
	kind := strings.Join([]string{k.Agents, k.Version[:min(len(k.Version), 7)], k.Provider, k.Model}, ",")
	return strconv.Itoa(os.Getpid()) + "@" + host + "@" + strings.ToValidUTF8(kind, "?")
}

// Kinds are those of workers, by their identities, without those of this machine that
// have ended: Temporal remembers them for a while.
func Kinds(identities []string) (found []Kind) {
	host, _ := os.Hostname()
	for _, id := range identities {
		parts := strings.SplitN(id, "@", 3)
		if len(parts) < 3 || parts[1] == host && ended(parts[0]) {
			continue
		}
		if f := strings.SplitN(parts[2], ",", 4); len(f) == 4 {
			found = append(found, Kind{Agents: f[0], Version: f[1], Provider: f[2], Model: f[3]})
		}
	}
	return found
}

func ended(pid string) bool {
	n, err := strconv.Atoi(pid)
	return err == nil && !config.Alive(n)
}

// Differ says how workers of one queue differ, "" if they do not.
func Differ(kinds []Kind) string {
	var texts []string
	for _, k := range kinds {
		if text := k.String(); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if len(texts) < 2 {
		return ""
	}
	slices.Sort(texts)
	return "the workers of this task queue differ, and any of them may answer: " + strings.Join(texts, "; ")
}

// noModel answers where a model is asked that no provider is named for, and none is
// configured.
type noModel struct{}

// ToDoWithoutModel is what to do where no model is configured.
const ToDoWithoutModel = "set OPENAI_API_KEY, or OPENAI_BASE_URL of a server that needs no key (and SPOOL_MODEL); SPOOL_DEMO_MODEL=true, or --demo-model, asks for the scripted demo model"

func (noModel) Generate(_ context.Context, r agent.ModelRequest, _ func(agent.Delta)) (agent.ModelReply, error) {
	return agent.ModelReply{}, &agent.ModelError{Code: agent.ModelUnknown, Message: "no model is configured in the worker's environment", Model: r.Model, ToDo: ToDoWithoutModel}
}
