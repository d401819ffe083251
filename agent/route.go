package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ModelRoute is where a model is asked.
type ModelRoute struct {
	// Model is its name there.
	Model string
	// Provider is the name of a provider of the table of models; "" is the one of the
	// settings.
	Provider string
}

// UnknownProvider is a provider that is named and not set up.
type UnknownProvider struct {
	Provider string
	// Model is the name that ends in @Provider; "" if the provider was named apart.
	Model string
	// Known are the names of those that are set up.
	Known []string
}

// Error says what is named, what there is, and what to do.
func (e *UnknownProvider) Error() string { return e.What() + ": " + e.ToDo() }

// ToDo says what can be done about it.
func (e *UnknownProvider) ToDo() string {
	const add = "add it to models.yaml in the worker's home and start the worker again"
	if e.Model == "" {
		return "correct the name, or " + add
	}
	return "correct it, " + add + ", or write " + e.Model + "@ if all of that is the model's name"
}

// What says what is named, and what there is.
func (e *UnknownProvider) What() string {
	there := "there is only the one of the settings"
	if len(e.Known) > 0 {
		there = "set up: " + strings.Join(e.Known, ", ")
	}
	if e.Model == "" {
		return fmt.Sprintf("no provider %s is set up (%s)", e.Provider, there)
	}
	return fmt.Sprintf("the model %s names a provider %s, and none of that name is set up (%s)", e.Model, e.Provider, there)
}

// RouteModel is the one rule of what a model's name says about its provider. What
// stands behind the last @ is
//   - a provider, if one of that name is known: "mistral-large@mistral";
//   - nothing, if it is empty: all before it is the model's name, whatever it holds;
//   - part of the model's name if the @ comes first, if it starts like a version
//     ("claude@20240620", "text@001", "m@v2", "@latest", "@default") or has a slash or
//     colon ("workers-ai/@cf/meta/llama");
//   - a mistake otherwise: an *UnknownProvider, so that no model is asked at a provider
//     that was not meant, with that one's key.
//
// provider is the one that is named apart, as in an agent's file; a name behind the
// model's comes before it. known is the table of providers by name.
func RouteModel[P any](model, provider string, known map[string]P) (ModelRoute, error) {
	name := model
	if i := strings.LastIndexByte(model, '@'); i > 0 {
		behind := model[i+1:]
		name = model[:i]
		switch _, ok := known[behind]; {
		case ok:
			return ModelRoute{name, behind}, nil
		case behind == "":
		case partOfName(behind):
			name = model
		default:
			return ModelRoute{}, &UnknownProvider{Provider: behind, Model: model, Known: slices.Sorted(maps.Keys(known))}
		}
	}
	if _, ok := known[provider]; !ok && provider != "" {
		return ModelRoute{}, &UnknownProvider{Provider: provider, Known: slices.Sorted(maps.Keys(known))}
	}
	return ModelRoute{name, provider}, nil
}

// partOfName tells what providers put behind an @ in the names of models from the
// name of a provider.
func partOfName(behind string) bool {
	if behind == "latest" || behind == "default" || strings.ContainsAny(behind, "/:") {
		return true
	}
	digit := strings.TrimPrefix(behind, "v")
	return digit != "" && digit[0] >= '0' && digit[0] <= '9'
}
