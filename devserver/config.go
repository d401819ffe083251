package main

import (
	"fmt"

	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"
)

// clusterName is recorded in every namespace; changing it orphans existing data.
const clusterName = "active"

// newServer puts the Temporal server together; it listens only once started.
func newServer(o options, p ports, store store, log logger) (temporal.Server, error) {
	grpc := map[primitives.ServiceName]int{
		primitives.FrontendService: p.frontend,
		primitives.HistoryService:  p.history,
		primitives.MatchingService: p.matching,
		primitives.WorkerService:   p.worker,
	}
	services := make(map[string]config.Service, len(grpc))
	hosts := make(map[primitives.ServiceName]static.Hosts, len(grpc))
	for name, port := range grpc {
		services[string(name)] = config.Service{RPC: config.RPC{GRPCPort: port, BindOnIP: host}}
		hosts[name] = static.SingleLocalHost(address(port))
	}
	cfg := &config.Config{
		Services:    services,
		Persistence: store.persistence(),
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: address(p.frontend)},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: "disabled"},
			Visibility: config.VisibilityArchival{State: "disabled"},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: "disabled"},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
		}},
		// The server's own worker finds the frontend by it.
		PublicClient: config.PublicClient{HostPort: address(p.frontend)},
	}
	server, err := temporal.NewServer(
		temporal.WithConfig(cfg),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(hosts),
		temporal.WithLogger(log),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return authorization.NewNoopClaimMapper() }),
		temporal.WithDynamicConfigClient(dynamicConfig(o.untuned)),
	)
	if err != nil {
		return nil, fmt.Errorf("set up the Temporal server on %s: %w", store.describe(), err)
	}
	return server, nil
}

func address(port int) string { return fmt.Sprintf("%s:%d", host, port) }
