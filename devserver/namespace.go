package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"
)

// searchAttributeNames are the search attributes that Spool's workflows set.
var searchAttributeNames = []string{
	"SessionId", "ConversationId", "ThreadKind", "AgentType", "ParentThreadId", "RootThreadId", "TurnId", "UserId",
}

// searchAttributes returns them with their type.
func searchAttributes() map[string]enumspb.IndexedValueType {
	m := make(map[string]enumspb.IndexedValueType, len(searchAttributeNames))
	for _, name := range searchAttributeNames {
		m[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	}
	return m
}

// retention is how long a new namespace keeps closed workflows; the server's
// default of one day would empty the UI over a weekend.
func retention() *durationpb.Duration { return durationpb.New(90 * 24 * time.Hour) }

// prepareNamespace registers the namespace and the search attributes that it
// lacks: all of it on a new PostgreSQL database, nothing on most other starts.
func prepareNamespace(ctx context.Context, c client.Client, namespace string) error {
	_, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	var missing *serviceerror.NamespaceNotFound
	if errors.As(err, &missing) {
		_, err = c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
			Namespace: namespace, WorkflowExecutionRetentionPeriod: retention(),
		})
		var exists *serviceerror.NamespaceAlreadyExists
		if errors.As(err, &exists) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("register namespace %s: %w", namespace, err)
	}
	listed, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return fmt.Errorf("list the search attributes of namespace %s: %w", namespace, err)
	}
	absent := searchAttributes()
	for name, kind := range listed.GetCustomAttributes() {
		wanted, ours := absent[name]
		if ours && kind != wanted {
			return permanent{fmt.Errorf("search attribute %s of namespace %s is of type %s, but Spool needs %s: remove it, or give another --namespace",
				name, namespace, kind, wanted)}
		}
		delete(absent, name)
	}
	if len(absent) == 0 {
		return nil
	}
	_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: namespace, SearchAttributes: absent,
	})
	var refused *serviceerror.InvalidArgument
	if errors.As(err, &refused) {
		return permanent{fmt.Errorf("add %d search attributes to namespace %s: %w: remove some of its own, or give another --namespace",
			len(absent), namespace, err)}
	}
	if err != nil {
		return fmt.Errorf("add %d search attributes to namespace %s: %w", len(absent), namespace, err)
	}
	return nil
}

// probe asks for what a client needs first and returns nil once a workflow with
// any of the search attributes can be started. The matching service is not
// asked: it starts first, and a question would leave a task queue behind.
func probe(ctx context.Context, c client.Client, namespace string) error {
	conditions := make([]string, len(searchAttributeNames))
	for i, name := range searchAttributeNames {
		conditions[i] = name + " = 'none'"
	}
	// The frontend translates the names, so this fails until it knows them.
	if _, err := c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Namespace: namespace, Query: strings.Join(conditions, " AND "),
	}); err != nil {
		return fmt.Errorf("query the search attributes: %w", err)
	}
	// Answered by history, once it has acquired the shard: there is none of that name.
	_, err := c.DescribeWorkflowExecution(ctx, "devserver-probe", "")
	var none *serviceerror.NotFound
	if !errors.As(err, &none) {
		return fmt.Errorf("ask the history service: %w", err)
	}
	return nil
}
