package compose

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"

	"github.com/spool-agents/spool/internal/telemetry/export"
)

// The profile telemetry adds a place for traces, which the command in the file and in
// docs/telemetry.md leads to; without it nothing is sent.
func TestTelemetryProfile(t *testing.T) {
	file := filepath.Join(root, "docker-compose.yml")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	project := func(more map[string]string, profiles ...string) *types.Project {
		env := dotEnv(t, writeEnv(t))
		for k, v := range more {
			env[k] = v
		}
		p, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
			WorkingDir: root, Environment: env, ConfigFiles: []types.ConfigFile{{Filename: file, Content: data}},
		}, loader.WithProfiles(profiles))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	off := project(nil)
	if _, there := off.Services["jaeger"]; there {
		t.Error("jaeger starts without its profile")
	}
	if traces, metrics := export.Signals(lookup(off.Services["worker"])); traces || metrics {
		t.Error("telemetry is on without being asked for")
	}
	command := regexp.MustCompile(`OTEL_EXPORTER_OTLP_ENDPOINT=(\S+) OTEL_METRICS_EXPORTER=(\S+) docker compose --profile telemetry`)
	said := command.FindStringSubmatch(string(data))
	if said == nil || !strings.Contains(read(t, "docs/telemetry.md"), said[0]) {
		t.Fatalf("the command is not the same in both places: %q", said)
	}
	on := project(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": said[1], "OTEL_METRICS_EXPORTER": said[2]}, "telemetry")
	jaeger := on.Services["jaeger"]
	if !regexp.MustCompile(`:\d+\.\d+\.\d+$`).MatchString(jaeger.Image) || jaeger.HealthCheck == nil || jaeger.Restart != types.RestartPolicyUnlessStopped {
		t.Errorf("jaeger: image %s, health check %v, restart %s", jaeger.Image, jaeger.HealthCheck, jaeger.Restart)
	}
	for _, port := range jaeger.Ports {
		if ip := net.ParseIP(port.HostIP); ip == nil || !ip.IsLoopback() {
			t.Errorf("jaeger publishes port %s on %q, not on loopback only", port.Published, port.HostIP)
		}
	}
	for _, service := range []string{"worker", "web"} {
		env := lookup(on.Services[service])
		if traces, metrics := export.Signals(env); !traces || metrics {
			t.Errorf("%s: traces %v, metrics %v", service, traces, metrics)
		}
		if at := export.Endpoints(env); len(at) != 1 || at[0].Address != "jaeger:4318" {
			t.Errorf("%s sends to %v", service, at)
		}
	}
}

func lookup(s types.ServiceConfig) func(string) string {
	return func(key string) string {
		if v := s.Environment[key]; v != nil {
			return *v
		}
		return ""
	}
}
