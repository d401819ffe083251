package encryption

import (
	"errors"
	"fmt"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
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

// Decode decrypts what is encrypted and passes the rest.
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
