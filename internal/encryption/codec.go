package encryption

import (
	"context"
	"errors"
	"fmt"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"
)

// Metadata of encrypted payloads, as Temporal's samples name it.
const (
	encoding   = "binary/encrypted"
	metadataID = "encryption-key-id"
)

// KeyError says that a payload cannot be decrypted with the keys at hand.
type KeyError struct {
	// ID is the id of the key that the payload names.
	ID string
	// Have are the ids of the keys at hand.
	Have []string
	// Refused means that there is a key with this id, which does not fit.
	Refused bool
}

// Error says which key is missing, and where to put it.
func (e *KeyError) Error() string {
	if e.Refused {
		return fmt.Sprintf("a payload cannot be decrypted with key %q: the key under this id in encryptionKeys (SPOOL_ENCRYPTION_KEYS) is another one than it was encrypted with, or the payload was changed", e.ID)
	}
	have := "which are not set here"
	if len(e.Have) > 0 {
		have = "which have " + strings.Join(e.Have, ", ")
	}
	return fmt.Sprintf("a payload is encrypted with key %q, which is missing in encryptionKeys (SPOOL_ENCRYPTION_KEYS), %s: add it behind the first", e.ID, have)
}

// Codec encrypts with the first key and decrypts with all. Without keys it leaves
// payloads as they are, and says which key an encrypted one needs.
func (k Keys) Codec() converter.PayloadCodec { return codec{k} }

type codec struct{ keys Keys }

func (c codec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	if !c.keys.Any() {
		return payloads, nil
	}
	first := c.keys.list[0]
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		plain, err := proto.Marshal(p)
		if err != nil {
			return nil, fmt.Errorf("encrypt a payload: %w", err)
		}
		out[i] = &commonpb.Payload{
			Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encoding), metadataID: []byte(first.id)},
			Data:     first.aead.Seal(nil, nil, plain, bound(first.id)),
		}
	}
	return out, nil
}

func (c codec) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		if string(p.GetMetadata()[converter.MetadataEncoding]) != encoding {
			out[i] = p
			continue
		}
		plain, err := c.open(p)
		if err != nil {
			// A run must wait for a worker that has the key, not end: its task
			// fails, and is repeated until there is one.
			return nil, converter.NewWorkflowTaskFailureError(err)
		}
		out[i] = plain
	}
	return out, nil
}

func (c codec) open(p *commonpb.Payload) (*commonpb.Payload, error) {
	id := string(p.GetMetadata()[metadataID])
	for _, one := range c.keys.list {
		if one.id != id {
			continue
		}
		raw, err := one.aead.Open(nil, nil, p.GetData(), bound(id))
		if err != nil {
			return nil, &KeyError{ID: id, Refused: true}
		}
		var plain commonpb.Payload
		if err := proto.Unmarshal(raw, &plain); err != nil {
			return nil, errors.New("a decrypted payload is not one of Temporal's: it was not encrypted by Spool")
		}
		return &plain, nil
	}
	return nil, &KeyError{ID: id, Have: c.keys.IDs()}
}

// bound is the additional data that ties a ciphertext to its purpose and key id.
func bound(id string) []byte { return []byte("spool payload 1 " + id) }

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
