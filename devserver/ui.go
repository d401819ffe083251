package main

import (
	"strconv"

	uiserver "github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	uioptions "github.com/temporalio/ui-server/v2/server/server_options"
)

// uiSettings is the web UI's configuration; it never changes.
type uiSettings uiconfig.Config

// GetConfig returns the configuration.
func (s *uiSettings) GetConfig() (*uiconfig.Config, error) { return (*uiconfig.Config)(s), nil }

// startUI serves the web UI in the background; nil if it was not asked for. It
// connects to the server when the first page does, so the order is free.
func startUI(o options, p ports) *uiserver.Server {
	if o.uiPort == noUI {
		return nil
	}
	ui := uiserver.NewServer(uioptions.WithConfigProvider(&uiSettings{
		Host:                host,
		Port:                p.ui,
		TemporalGRPCAddress: address(p.frontend),
		EnableUI:            true,
		DefaultNamespace:    o.namespace,
		// It is served over plain HTTP on the loopback address.
		CORS:             uiconfig.CORS{CookieInsecure: true, AllowOrigins: []string{"http://" + host + ":" + strconv.Itoa(p.ui)}},
		Codec:            uiconfig.Codec{Endpoint: o.uiCodec}, // browsers ask it, not this server
		HideLogs:         true,
		DisableNewsFetch: true,
	}))
	// Start blocks until Stop. It has no error to return: if the port was taken
	// since it was picked, it prints that and ends the process.
	go func() { _ = ui.Start() }()
	return ui
}
