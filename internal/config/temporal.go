package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
)

// temporal puts the TOML and dev.json layers in their places and makes the
// client options.
//
// Address, namespace and TLS of one source belong together: a dev stack or a
// spool.yaml that gives the address is not mixed with the certificates of the
// default TOML profile, which are meant for another server.
func (r *resolver) temporal(dev *DevInfo) client.Options {
	profile, source, explicit := r.toml()
	var toml layer
	if profile != nil {
		toml = layer{
			TemporalAddress:   {profile.Address, source, r.dir},
			TemporalNamespace: {profile.Namespace, source, r.dir},
		}
	}
	yamls := r.layers
	r.layers = nil
	if explicit {
		r.layers = append(r.layers, toml)
	}
	_, addressed := r.find(TemporalAddress)
	if dev != nil {
		r.layers = append(r.layers, r.devLayer(dev, !addressed))
	}
	r.layers = append(r.layers, yamls...)
	if !explicit {
		if _, local := r.find(TemporalAddress); local && !addressed {
			profile = nil
		} else {
			r.layers = append(r.layers, toml)
		}
	}
	if profile == nil {
		profile = &envconfig.ClientConfigProfile{}
	}
	return r.clientOptions(*profile, source)
}

// devLayer is what a live dev.json offers. Its namespace and UI are those of
// its own server, so they count only if its address does.
func (r *resolver) devLayer(dev *DevInfo, address bool) layer {
	source := DevPath(r.used[Home].value) + " (running)"
	l := layer{Store: {dev.Store, source, r.dir}}
	if address {
		l[TemporalAddress] = found{dev.Temporal, source, r.dir}
		l[TemporalNamespace] = found{"default", source, r.dir}
		l[TemporalUI] = found{dev.UI, source, r.dir}
	}
	return l
}

// toml loads the TOML profile. It is explicit when a flag or the environment
// names the profile or the file; one named by spool.yaml ranks as the default.
func (r *resolver) toml() (_ *envconfig.ClientConfigProfile, source string, explicit bool) {
	file := r.get(TemporalConfig)
	name := r.get(TemporalProfile)
	explicit = r.outranksDev(TemporalConfig) || r.outranksDev(TemporalProfile)
	if file != "" {
		if _, err := os.Stat(file); err != nil {
			r.problem("%s %q (from %s) cannot be read: %v", TemporalConfig, file, r.used[TemporalConfig].source, err)
			return nil, "", explicit
		}
	}
	conf, err := envconfig.LoadClientConfig(envconfig.LoadClientConfigOptions{ConfigFilePath: file, EnvLookup: r.lookupEnv()})
	if file == "" {
		file = envconfig.DefaultConfigFilePath()
	}
	if err != nil {
		r.problem("TOML file %s is not usable: %v", file, err)
		return nil, "", explicit
	}
	named := name != ""
	if !named {
		name = envconfig.DefaultConfigFileProfile
	}
	profile := conf.Profiles[name]
	if profile == nil && named {
		r.problem("%s %q (from %s) is not valid: use a profile of %s", TemporalProfile, name, r.used[TemporalProfile].source, file)
	}
	source = fmt.Sprintf("TOML profile %s of %s", name, file)
	if !explicit {
		source = "default " + source
	}
	return profile, source, explicit
}

// outranksDev reports whether a flag or the environment sets this.
func (r *resolver) outranksDev(name string) bool {
	return r.flags[name].value != "" || r.env(known[name].env) != ""
}

func (r *resolver) clientOptions(p envconfig.ClientConfigProfile, source string) client.Options {
	for _, name := range []string{"TEMPORAL_TLS", "TEMPORAL_TLS_DISABLE_HOST_VERIFICATION"} {
		switch v := strings.ToLower(r.env(name)); v {
		case "", "1", "0", "true", "false":
		default:
			r.problem("%s %q (from environment) is not valid: use true, false, 1 or 0", name, v)
		}
	}
	if err := p.ApplyEnvVars(r.lookupEnv()); err != nil {
		r.problem("the TEMPORAL_* environment is not usable: %v", err)
	}
	if p.TLS != nil && p.TLS.ClientKeyPath != "" {
		r.tlsKey, _ = filepath.Abs(p.TLS.ClientKeyPath)
	}
	p.Address = r.get(TemporalAddress)
	p.Namespace = r.get(TemporalNamespace)
	if p.APIKey != "" { // the environment's by now, if it has one
		from := source
		if r.env("TEMPORAL_API_KEY") != "" {
			from = "environment TEMPORAL_API_KEY"
		}
		r.used["temporalApiKey"] = found{value: NewSecret(p.APIKey).String(), source: from}
	}
	opts, err := p.ToClientOptions(envconfig.ToClientOptionsRequest{})
	if err != nil {
		r.problem("the Temporal connection (%s) is not usable: %v", source, err)
		return client.Options{}
	}
	if opts.ConnectionOptions.TLS != nil {
		r.used["temporalTls"] = found{value: "on", source: r.sourceOfTLS(source)}
	}
	return opts
}

// sourceOfTLS is the variable that turns TLS on, or the source of the profile.
func (r *resolver) sourceOfTLS(profile string) string {
	for _, name := range []string{"", "_CLIENT_CERT_PATH", "_CLIENT_CERT_DATA", "_SERVER_CA_CERT_PATH", "_SERVER_NAME"} {
		if r.env("TEMPORAL_TLS"+name) != "" {
			return "environment TEMPORAL_TLS" + name
		}
	}
	if r.env("TEMPORAL_API_KEY") != "" {
		return "environment TEMPORAL_API_KEY"
	}
	return profile
}

// lookupEnv adapts the injected environment to envconfig; empty is unset.
func (r *resolver) lookupEnv() envconfig.EnvLookup { return envLookup{r} }

type envLookup struct{ r *resolver }

func (e envLookup) Environ() []string {
	if e.r.environ == nil {
		return nil
	}
	return e.r.environ()
}

func (e envLookup) LookupEnv(name string) (string, bool) {
	v := e.r.env(name)
	return v, v != ""
}
