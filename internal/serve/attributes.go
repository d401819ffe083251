package serve

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/spool-agents/spool/internal/contract"
)

// SearchAttributes reports whether the namespace has our search
// attributes, adding them if it may. Without them everything works but finding
// threads by attribute in the Web UI.
func SearchAttributes(ctx context.Context, c client.Client, namespace string, log *slog.Logger) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	op := c.OperatorService()
	add := map[string]enumspb.IndexedValueType{}
	for _, name := range contract.SearchAttributes {
		add[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	}
	have := func() (bool, error) {
		list, err := op.ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
		for name, kind := range add {
			if list.GetCustomAttributes()[name] != kind {
				return false, err
			}
		}
		return true, err
	}
	ok, err := have()
	if err == nil && !ok {
		_, err = op.AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: namespace, SearchAttributes: add})
		// The server caches what a namespace has.
		for until := time.Now().Add(5 * time.Second); !ok && err == nil && time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
			ok, err = have()
		}
	}
	if !ok {
		log.Warn("threads cannot be found by search attribute in the Temporal Web UI: the namespace lacks Spool's and this worker may not add them",
			"namespace", namespace, "attributes", fmt.Sprint(contract.SearchAttributes), "error", err)
	}
	return ok
}
