package compose

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"

	"github.com/spool-agents/spool/internal/config"
	"github.com/spool-agents/spool/internal/starter"
)

const root = "../.."

// load reads the file as docker compose would, with the .env that `make up` writes
// and what more is set.
func load(t *testing.T, more map[string]string) *types.Project {
	t.Helper()
	env := dotEnv(t, writeEnv(t))
	maps.Copy(env, more)
	p, err := parse(t, env)
	if err != nil {
		t.Fatalf("docker-compose.yml: %v", err)
	}
	return p
}

func parse(t *testing.T, env map[string]string) (*types.Project, error) {
	t.Helper()
	file := filepath.Join(root, "docker-compose.yml")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: root, Environment: env, ConfigFiles: []types.ConfigFile{{Filename: file, Content: data}},
	})
}

// oneShot are the services that do their work and end.
var oneShot = []string{"temporal-namespace", "temporal-schema"}

func TestServices(t *testing.T) {
	p := load(t, nil)
	want := []string{"postgres", "temporal", "temporal-namespace", "temporal-schema", "temporal-ui", "web", "worker"}
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
		"worker":             {"postgres": types.ServiceConditionHealthy, "temporal-namespace": types.ServiceConditionCompletedSuccessfully},
		"web":                {"postgres": types.ServiceConditionHealthy, "temporal-namespace": types.ServiceConditionCompletedSuccessfully},
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
}

// A worker's health is whether it can work: what another container would not mend, such
// as a key that is not set, does not count (TestAWorkersHealth checks it on one that runs).
func TestWorkerHealthCheck(t *testing.T) {
	worker := load(t, nil).Services["worker"]
	test := worker.HealthCheck.Test
	if !slices.Equal(test, []string{"CMD", "spool", "doctor", "--only", "worker"}) {
		t.Fatalf("a worker's health is checked by %v", test)
	}
	dir := t.TempDir()
	env := []string{"SPOOL_HOME=" + dir, "HOME=" + dir, "SPOOL_STORE=sqlite:" + filepath.Join(dir, "spool.db"), "TEMPORAL_ADDRESS=127.0.0.1:1"}
	var out strings.Builder
	if code := starter.Run(t.Context(), test[2:], env, strings.NewReader(""), &out, t.Output()); code != 5 {
		t.Errorf("exit code %d without store and Temporal, want 5: %s", code, out.String())
	}
	for _, other := range []string{"model", "mcp", "agents"} {
		if strings.Contains(out.String(), "\n"+other+" ") {
			t.Errorf("it checks %s too: %s", other, out.String())
		}
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
	if published != 3 {
		t.Errorf("%d ports are published, want Temporal's, its UI's and the web page's", published)
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
}

// Workers and the web page accept their environment, with and without a model, and
// find Temporal and one store on PostgreSQL where this file puts them.
func TestConfiguration(t *testing.T) {
	for name, model := range map[string]map[string]string{
		"demo model": nil,
		"real model": {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "https://example.com/v1", "SPOOL_MODEL": "m"},
	} {
		t.Run(name, func(t *testing.T) {
			p := load(t, model)
			for _, service := range []string{"worker", "web"} {
				cfg := configuration(t, p.Services[service])
				if cfg.Temporal.HostPort != "temporal:7233" || cfg.TemporalUI != "http://localhost:8233" || cfg.User != "spool" {
					t.Errorf("%s: temporal %s, UI %s, user %s", service, cfg.Temporal.HostPort, cfg.TemporalUI, cfg.User)
				}
				store, err := url.Parse(cfg.Store)
				if err != nil || store.Scheme != "postgres" || store.Host != "postgres:5432" || store.Path != "/spool" {
					t.Errorf("%s: the store is at %q, %v", service, cfg.Store, err)
				}
				if service == "worker" && (cfg.Demo() != (model == nil) || model != nil && cfg.Model != "m") {
					t.Errorf("demo model: %v, model %q", cfg.Demo(), cfg.Model)
				}
			}
			if key := p.Services["web"].Environment["OPENAI_API_KEY"]; key != nil {
				t.Error("the web page gets the model's key")
			}
		})
	}
}

// configuration is what a program of the service makes of its environment.
func configuration(t *testing.T, s types.ServiceConfig) config.Config {
	t.Helper()
	dir := t.TempDir()
	cfg, err := config.Load(config.Options{Dir: dir, Env: func(key string) string {
		if v := s.Environment[key]; v != nil {
			return *v
		}
		return map[string]string{"SPOOL_HOME": dir}[key]
	}})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// healthCheck runs the web page's health check against another address.
func healthCheck(t *testing.T, address string) error {
	t.Helper()
	test := load(t, nil).Services["web"].HealthCheck.Test
	if len(test) != 4 || test[0] != "CMD" || !strings.Contains(test[3], "127.0.0.1/8080") {
		t.Fatalf("%q", test)
	}
	script := strings.Replace(test[3], "127.0.0.1/8080", strings.Replace(address, ":", "/", 1), 1)
	return exec.CommandContext(t.Context(), test[1], test[2], script).Run()
}

func TestWebHealthCheck(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer server.Close()
	if healthCheck(t, server.Listener.Addr().String()) == nil {
		t.Error("a server that answers 503 passes for healthy")
	}
	server.Close()
	if healthCheck(t, server.Listener.Addr().String()) == nil {
		t.Error("no server passes for healthy")
	}
}

// TestWebCommand runs the web page with its command and environment, on a free port
// and a store of its own, and checks its health as the file does. Temporal is away.
func TestWebCommand(t *testing.T) {
	web := load(t, nil).Services["web"]
	if !slices.Equal(web.Entrypoint, []string{"spool"}) {
		t.Fatalf("%q", web.Entrypoint)
	}
	dir := t.TempDir()
	env := []string{"SPOOL_HOME=" + dir, "HOME=" + dir}
	for name, value := range web.Environment {
		switch name {
		case "SPOOL_STORE":
			env = append(env, "SPOOL_STORE=sqlite:"+filepath.Join(dir, "spool.db"))
		case "TEMPORAL_ADDRESS":
			env = append(env, "TEMPORAL_ADDRESS=127.0.0.1:1")
		default:
			env = append(env, name+"="+*value)
		}
	}
	args := slices.Clone([]string(web.Command))
	i := slices.Index(args, "--web-port")
	if i < 0 || args[i+1] != "8080" {
		t.Fatalf("%q", args)
	}
	args[i+1] = "0"
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	done := make(chan int, 1)
	go func() {
		code := starter.Run(ctx, append(args, "--json"), env, strings.NewReader(""), w, t.Output())
		_ = w.Close() // never fails
		done <- code
	}()
	var said struct{ Web string }
	if err := json.NewDecoder(r).Decode(&said); err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(said.Web)
	if err != nil {
		t.Fatal(err)
	}
	if err := healthCheck(t, net.JoinHostPort("127.0.0.1", at.Port())); err != nil {
		t.Errorf("%s is not healthy: %v", said.Web, err)
	}
	stop()
	<-done
}

func TestImageRunsWithoutRoot(t *testing.T) {
	text := read(t, "Dockerfile")
	last := text[strings.LastIndex(text, "\nFROM "):]
	if !regexp.MustCompile(`(?m)^USER [1-9]\d*:[1-9]\d*$`).MatchString(last) {
		t.Error("the image runs as root, or as a name that Kubernetes cannot check")
	}
	for _, program := range []string{"CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /out/spool ./starter", "ln -s spool /usr/local/bin/spool-worker"} {
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

// No container has rights that it does not need; those that run Spool write to nothing
// but their volumes and /tmp, and neither memory nor processes are without a limit.
func TestContainersAreConfined(t *testing.T) {
	services := load(t, nil).AllServices()
	if len(services) != 8 {
		t.Errorf("%d services", len(services))
	}
	for name, s := range services {
		if !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) || s.PidsLimit <= 0 || s.Privileged {
			t.Errorf("%s: drops %v, %v, %d processes", name, s.CapDrop, s.SecurityOpt, s.PidsLimit)
		}
		if (len(s.CapAdd) > 0) != (name == "postgres") || slices.Contains(s.CapAdd, "ALL") || slices.Contains(s.CapAdd, "SYS_ADMIN") {
			t.Errorf("%s: adds %v", name, s.CapAdd)
		}
		folders := map[string]string{}
		for _, v := range s.Volumes {
			folders[v.Target] = v.Source
		}
		if name == "worker" && (folders["/data"] != "spool-data" || folders["/workspace"] == "") || name == "web" && folders["/data"] != "web-data" {
			t.Errorf("%s writes to %v", name, folders)
		}
		if spool := name == "worker" || name == "web"; spool && (!s.ReadOnly || s.MemLimit <= 0 || !strings.HasPrefix(strings.Join(s.Tmpfs, ""), "/tmp:")) {
			t.Errorf("%s: read-only %v, memory %d, %v", name, s.ReadOnly, s.MemLimit, s.Tmpfs)
		}
	}
}
