package encryption_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"

	"github.com/spool-agents/spool/internal/encryption"
)

func encode(t *testing.T, keys encryption.Keys, p *commonpb.Payload) *commonpb.Payload {
	t.Helper()
	out, err := keys.Codec().Encode([]*commonpb.Payload{p})
	require.NoError(t, err)
	require.Len(t, out, 1)
	return out[0]
}

func payload(t *testing.T, v any) *commonpb.Payload {
	t.Helper()
	p, err := converter.GetDefaultDataConverter().ToPayload(v)
	require.NoError(t, err)
	return p
}

// What one list of keys encrypted, every list with that key decrypts, and plain
// payloads pass through all.
func TestPayloadsGoRoundWithAnyListThatHasTheKey(t *testing.T) {
	a, b, ba := load(t, "a="+keyA), load(t, "b="+keyB), load(t, "b="+keyB+",a="+keyA)
	for _, v := range []any{"a secret", nil, []byte{0, 1}, map[string]any{"q": "x"}, struct{}{}} {
		plain := payload(t, v)
		for _, pair := range []struct{ by, with encryption.Keys }{{a, a}, {a, ba}, {ba, ba}, {ba, b}, {encryption.Keys{}, a}, {encryption.Keys{}, encryption.Keys{}}} {
			sealed := encode(t, pair.by, proto.Clone(plain).(*commonpb.Payload))
			if pair.by.Any() {
				assert.Equal(t, "binary/encrypted", string(sealed.Metadata["encoding"]))
				assert.Equal(t, pair.by.IDs()[0], string(sealed.Metadata["encryption-key-id"]))
				assert.NotContains(t, string(sealed.Data), "secret")
				assert.NotContains(t, string(sealed.Data), "json/plain")
			}
			out, err := pair.with.Codec().Decode([]*commonpb.Payload{sealed})
			require.NoError(t, err)
			assert.True(t, proto.Equal(plain, out[0]), "%v", out[0])
		}
	}
	assert.NotEqual(t, encode(t, a, payload(t, "x")).Data, encode(t, a, payload(t, "x")).Data, "the nonce is used again")
}

// An unknown key, another key under the same id, and a change of data or id are
// errors that name the id, and ask for another try of the workflow task.
func TestPayloadsThatCannotBeDecrypted(t *testing.T) {
	a := load(t, "a="+keyA)
	sealed := encode(t, a, payload(t, "x"))
	changed := proto.Clone(sealed).(*commonpb.Payload)
	changed.Data[len(changed.Data)/2] ^= 1
	renamed := proto.Clone(sealed).(*commonpb.Payload)
	renamed.Metadata["encryption-key-id"] = []byte("b")
	short := proto.Clone(sealed).(*commonpb.Payload)
	short.Data = short.Data[:5]
	for _, c := range []struct {
		keys    encryption.Keys
		p       *commonpb.Payload
		id      string
		refused bool
	}{
		{load(t, "b="+keyB), sealed, "a", false},
		{encryption.Keys{}, sealed, "a", false},
		{load(t, "a="+keyB), sealed, "a", true},
		{a, changed, "a", true},
		{a, short, "a", true},
		{load(t, "a="+keyA+",b="+keyA), renamed, "b", true}, // the id is bound to the data
	} {
		_, err := c.keys.Codec().Decode([]*commonpb.Payload{payload(t, 1), c.p})
		var missing *encryption.KeyError
		require.ErrorAs(t, err, &missing)
		assert.Equal(t, c.id, missing.ID)
		assert.Equal(t, c.refused, missing.Refused)
		assert.ErrorContains(t, err, "SPOOL_ENCRYPTION_KEYS")
		assert.ErrorContains(t, err, `"`+c.id+`"`)
		var again *converter.WorkflowTaskFailureError
		assert.ErrorAs(t, err, &again)
	}
}

// In workflow code a missing key panics with the error that the SDK takes as a failed
// task: the SDK drops signals over errors. Activities and clients get the error.
func TestWorkflowCodeStopsAtAMissingKey(t *testing.T) {
	var mine, other client.Options
	load(t, "a="+keyA).Apply(&mine)
	load(t, "b="+keyB).Apply(&other)
	sealed, err := mine.DataConverter.ToPayloads("x")
	require.NoError(t, err)
	var s string
	aware := other.DataConverter.(converter.ContextAware)
	var missing *encryption.KeyError
	require.ErrorAs(t, aware.WithContext(t.Context()).FromPayloads(sealed, &s), &missing)
	require.ErrorAs(t, other.DataConverter.FromPayload(sealed.Payloads[0], &s), &missing)
	inside := aware.WithWorkflowContext(nil)
	for _, decode := range []func(){
		func() { _ = inside.FromPayloads(sealed, &s) },
		func() { _ = inside.FromPayload(sealed.Payloads[0], &s) },
	} {
		func() {
			defer func() {
				err, ok := recover().(error)
				require.True(t, ok, "it did not panic")
				require.ErrorAs(t, err, &missing)
			}()
			decode()
		}()
	}
	plain, err := converter.GetDefaultDataConverter().ToPayloads(1)
	require.NoError(t, err)
	require.Error(t, inside.FromPayloads(plain, &s), "other errors stay errors")
}

// Failures are encrypted whole: messages, stack traces, details and causes. A
// worker that lacks the key does not read them as failures without a message.
func TestFailures(t *testing.T) {
	var mine, plain, other client.Options
	load(t, "a="+keyA).ApplyToWorker(&mine)
	encryption.Keys{}.ApplyToWorker(&plain)
	load(t, "b="+keyB).ApplyToWorker(&other)
	cause := temporal.NewApplicationErrorWithCause("secret message", "type", errors.New("secret cause"), "secret details")
	sealed := mine.FailureConverter.ErrorToFailure(cause)
	assert.NotContains(t, sealed.String(), "secret")
	assert.Equal(t, "type", sealed.GetApplicationFailureInfo().GetType())

	var back *temporal.ApplicationError
	require.ErrorAs(t, mine.FailureConverter.FailureToError(sealed), &back)
	var details string
	require.NoError(t, back.Details(&details))
	assert.Equal(t, "secret message", back.Message())
	assert.Equal(t, "secret details", details)
	assert.ErrorContains(t, errors.Unwrap(back), "secret cause")

	for _, o := range []client.Options{plain, other} {
		func() {
			defer func() {
				err, ok := recover().(error)
				require.True(t, ok)
				var missing *encryption.KeyError
				require.ErrorAs(t, err, &missing)
			}()
			_ = o.FailureConverter.FailureToError(mine.FailureConverter.ErrorToFailure(cause))
		}()
	}
	// One that was written without keys is read with keys.
	open := plain.FailureConverter.ErrorToFailure(errors.New("plain"))
	assert.Equal(t, "plain", open.GetMessage(), "without keys failures are written as ever")
	assert.ErrorContains(t, mine.FailureConverter.FailureToError(open), "plain")
}
