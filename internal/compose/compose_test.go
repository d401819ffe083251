package compose

import (
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"

	"github.com/spool-agents/spool/internal/config"
)

const root = "../.."

// load reads the file as docker compose would, without any variable set.
func load(t *testing.T, env map[string]string) *types.Project {
	t.Helper()
	file := filepath.Join(root, "docker-compose.yml")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: root, Environment: env, ConfigFiles: []types.ConfigFile{{Filename: file, Content: data}},
	})
	if err != nil {
		t.Fatalf("docker-compose.yml: %v", err)
	}
	return p
}

// oneShot are the services that do their work and end.
var oneShot = []string{"temporal-namespace", "temporal-schema"}

func TestServices(t *testing.T) {
	p := load(t, nil)
	want := []string{"postgres", "temporal", "temporal-namespace", "temporal-schema", "temporal-ui", "worker"}
	if got := slices.Sorted(maps.Keys(p.Services)); !slices.Equal(got, want) {
		t.Fatalf("services %v, want %v", got, want)
	}
	if d := p.Services["worker"].Deploy; d == nil || d.Replicas == nil || *d.Replicas != 2 {
		t.Error("there are not two workers")
	}
	order := map[string]map[string]string{
		"temporal-schema":    {"postgres": types.ServiceConditionHealthy},
		"temporal":           {"temporal-schema": types.ServiceConditionCompletedSuccessfully},
		"temporal-namespace": {"temporal": types.ServiceConditionHealthy},
		"temporal-ui":        {"temporal": types.ServiceConditionHealthy},
		"worker":             {"temporal-namespace": types.ServiceConditionCompletedSuccessfully},
	}
	for name, s := range p.Services {
		got := map[string]string{}
		for on, d := range s.DependsOn {
			got[on] = d.Condition
		}
		if !maps.Equal(got, order[name]) {
			t.Errorf("%s waits for %v, want %v", name, got, order[name])
		}
	}
}

// A tag that moves makes two installations of one commit differ.
func TestImagesArePinned(t *testing.T) {
	pinned := regexp.MustCompile(`:\d+\.\d+(\.\d+)?(-[a-z]+)?$`)
	for name, s := range load(t, nil).Services {
		if s.Build == nil && !pinned.MatchString(s.Image) {
			t.Errorf("%s: image %s is not pinned to a version", name, s.Image)
		}
	}
	for _, image := range regexp.MustCompile(`_IMAGE=(\S+)`).FindAllStringSubmatch(read(t, "Dockerfile"), -1) {
		if !pinned.MatchString(image[1]) {
			t.Errorf("Dockerfile: image %s is not pinned to a version", image[1])
		}
	}
}

func TestServicesAreHealthChecked(t *testing.T) {
	for name, s := range load(t, nil).Services {
		if slices.Contains(oneShot, name) {
			if !strings.HasPrefix(s.Restart, types.RestartPolicyOnFailure) {
				t.Errorf("%s ends by itself, but its restart policy is %q", name, s.Restart)
			}
			continue
		}
		if s.Restart != types.RestartPolicyUnlessStopped {
			t.Errorf("%s does not come back after a crash: restart is %q", name, s.Restart)
		}
		if s.HealthCheck == nil || len(s.HealthCheck.Test) < 2 || s.HealthCheck.Interval == nil || s.HealthCheck.Retries == nil {
			t.Errorf("%s has no complete health check", name)
		}
	}
	if got := load(t, nil).Services["worker"].HealthCheck.Test; !slices.Equal(got, []string{"CMD", "spool", "doctor"}) {
		t.Errorf("a worker's health is checked by %v", got)
	}
}

// Neither Temporal nor its database has a password worth the name.
func TestPortsAreOnLoopback(t *testing.T) {
	published := 0
	for name, s := range load(t, nil).Services {
		for _, port := range s.Ports {
			published++
			if ip := net.ParseIP(port.HostIP); ip == nil || !ip.IsLoopback() {
				t.Errorf("%s publishes port %s on %q, not on loopback only", name, port.Published, port.HostIP)
			}
		}
	}
	if published != 2 {
		t.Errorf("%d ports are published, want Temporal's and its UI's", published)
	}
}

func TestDataIsOnVolumes(t *testing.T) {
	p := load(t, nil)
	for service, target := range map[string]string{"postgres": "/var/lib/postgresql/data", "worker": "/data"} {
		i := slices.IndexFunc(p.Services[service].Volumes, func(v types.ServiceVolumeConfig) bool { return v.Target == target })
		if i < 0 {
			t.Errorf("%s keeps %s in its container", service, target)
			continue
		}
		v := p.Services[service].Volumes[i]
		if _, named := p.Volumes[v.Source]; v.Type != types.VolumeTypeVolume || !named || v.ReadOnly {
			t.Errorf("%s: %s is not a writable named volume", service, target)
		}
	}
	store := p.Services["worker"].Environment["SPOOL_STORE"]
	if store == nil || !strings.HasPrefix(*store, "sqlite:/data/") {
		t.Errorf("the workers' store is not on the shared volume: %v", store)
	}
}

// The worker accepts its environment, with and without a model, and finds
// Temporal and the store where this file puts them.
func TestWorkerConfiguration(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"demo model": nil,
		"real model": {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "https://example.com/v1", "SPOOL_MODEL": "m"},
	} {
		t.Run(name, func(t *testing.T) {
			worker := load(t, env).Services["worker"]
			dir := t.TempDir()
			cfg, err := config.Load(config.Options{Dir: dir, Env: func(key string) string {
				if v := worker.Environment[key]; v != nil {
					return *v
				}
				return map[string]string{"SPOOL_HOME": dir}[key]
			}})
			if err != nil {
				t.Fatal(err)
			}
			if cfg.Temporal.HostPort != "temporal:7233" || cfg.Store != "sqlite:/data/spool.db" || cfg.TemporalUI != "http://localhost:8233" {
				t.Errorf("temporal %s, store %s, UI %s", cfg.Temporal.HostPort, cfg.Store, cfg.TemporalUI)
			}
			if cfg.Demo() != (env == nil) {
				t.Errorf("demo model: %v", cfg.Demo())
			}
			if env != nil && cfg.Model != "m" {
				t.Errorf("model %q", cfg.Model)
			}
		})
	}
}

// Every variable that may be set is in .env.example, and the reverse.
func TestEnvExample(t *testing.T) {
	used := map[string]bool{}
	for _, m := range regexp.MustCompile(`[^$]\$\{([A-Z_]+)`).FindAllStringSubmatch(read(t, "docker-compose.yml"), -1) {
		used[m[1]] = true
	}
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([A-Z_]+)=`).FindAllStringSubmatch(read(t, ".env.example"), -1) {
		listed[m[1]] = true
	}
	if !maps.Equal(used, listed) {
		t.Errorf("docker-compose.yml reads %v, .env.example lists %v", slices.Sorted(maps.Keys(used)), slices.Sorted(maps.Keys(listed)))
	}
}

func TestImageRunsWithoutRoot(t *testing.T) {
	text := read(t, "Dockerfile")
	last := text[strings.LastIndex(text, "\nFROM "):]
	if !regexp.MustCompile(`(?m)^USER [1-9]\d*:[1-9]\d*$`).MatchString(last) {
		t.Error("the image runs as root, or as a name that Kubernetes cannot check")
	}
	for _, program := range []string{"CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /out/spool ./starter", "-o /out/spool-worker ./worker"} {
		if !strings.Contains(text, program) {
			t.Errorf("the image is not built by %q", program)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
