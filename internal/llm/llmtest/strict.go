package llmtest

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// deepest is how deep JSON may be nested for the strictest parsers.
const deepest = 80

// Strict reads JSON as the strictest parsers do: UTF-8 without NUL and half surrogate
// pairs, numbers a double can hold, no key twice, no deep nesting, nothing behind it.
func Strict(text string) error {
	d, whole := jsontext.NewDecoder(strings.NewReader(text)), false
	for {
		t, err := d.ReadToken()
		switch {
		case whole && errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case whole:
			return fmt.Errorf("after the value comes %.20q", t.String())
		case d.StackDepth() > deepest:
			return errors.New("nested too deep")
		case t.Kind() == '"' && strings.ContainsRune(t.String(), 0):
			return errors.New("a string holds NUL")
		case t.Kind() == '0':
			if _, err := strconv.ParseFloat(t.String(), 64); err != nil {
				return err
			}
		}
		whole = d.StackDepth() == 0
	}
}

func skip(s string) string { return strings.TrimLeft(s, " \t\r\n") }
