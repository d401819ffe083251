package encryption

import (
	"context"
	"errors"

	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Apply makes a client encrypt and decrypt: values, summaries, details, and with
// keys also the messages and stack traces of failures.
func (k Keys) Apply(o *client.Options) {
	dc := dataConverter{k.converter()}
	o.DataConverter = dc
	o.FailureConverter = temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{
		DataConverter: dc, EncodeCommonAttributes: k.Any(),
	})
}

// ApplyToWorker is Apply for the client of a worker or a replayer. A failure that
// cannot be decrypted fails the workflow task, too, in place of being read as one
// without message and details. Such a client must not wait for results of
// workflows: there it panics.
func (k Keys) ApplyToWorker(o *client.Options) {
	k.Apply(o)
	o.FailureConverter = failureConverter{o.FailureConverter, k.converter()}
}

func (k Keys) converter() *converter.CodecDataConverter {
	return converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), k.Codec()).(*converter.CodecDataConverter)
}

// dataConverter is the SDK's, made stricter where a workflow runs.
type dataConverter struct{ *converter.CodecDataConverter }

// WithSerializationContext returns the converter: its codec knows no contexts.
func (d dataConverter) WithSerializationContext(converter.SerializationContext) converter.DataConverter {
	return d
}

// WithContext returns the converter: activities and clients get errors.
func (d dataConverter) WithContext(context.Context) converter.DataConverter { return d }

// WithWorkflowContext returns the converter of workflow code.
func (d dataConverter) WithWorkflowContext(workflow.Context) converter.DataConverter {
	return blocking{d}
}

// blocking panics where a key is missing, with an error that the SDK knows to fail
// the workflow task. An error alone would not do for signals: the SDK drops one that
// it cannot decode, and a worker that has the key would replay another history.
type blocking struct{ dataConverter }

func (b blocking) FromPayload(p *commonpb.Payload, into any) error {
	return block(b.dataConverter.FromPayload(p, into))
}

func (b blocking) FromPayloads(p *commonpb.Payloads, into ...any) error {
	return block(b.dataConverter.FromPayloads(p, into...))
}

func block(err error) error {
	if needsOtherWorker(err) {
		panic(err)
	}
	return err
}

func needsOtherWorker(err error) bool {
	var marker *converter.WorkflowTaskFailureError
	return errors.As(err, &marker)
}

// failureConverter panics as blocking does: the default one reads a failure that
// cannot be decrypted as one without message, and workflow code would go on with it.
type failureConverter struct {
	converter.FailureConverter
	values *converter.CodecDataConverter
}

func (f failureConverter) FailureToError(failure *failurepb.Failure) error {
	for one := failure; one != nil; one = one.GetCause() {
		f.check(one.GetEncodedAttributes())
		for _, details := range []*commonpb.Payloads{
			one.GetApplicationFailureInfo().GetDetails(),
			one.GetCanceledFailureInfo().GetDetails(),
			one.GetTimeoutFailureInfo().GetLastHeartbeatDetails(),
			one.GetResetWorkflowFailureInfo().GetLastHeartbeatDetails(),
		} {
			f.check(details.GetPayloads()...)
		}
	}
	return f.FailureConverter.FailureToError(failure)
}

func (f failureConverter) check(payloads ...*commonpb.Payload) {
	for _, p := range payloads {
		var raw converter.RawValue
		if err := f.values.FromPayload(p, &raw); needsOtherWorker(err) {
			panic(err)
		}
	}
}
