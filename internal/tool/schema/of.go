package schema

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
)

// Of is the schema of the JSON that is decoded into T. It panics if there is none, as
// for a channel: no value changes that.
func Of[T any]() json.RawMessage {
	s, err := jsonschema.For[T](nil)
	if err == nil {
		var text []byte
		if text, err = json.Marshal(s); err == nil {
			return text
		}
	}
	panic(fmt.Sprintf("%s has no JSON schema: %v", reflect.TypeFor[T](), err))
}
