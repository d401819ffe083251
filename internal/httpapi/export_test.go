package httpapi

// Operation is a route as its method and path.
type Operation struct{ Method, Path string }

// Operations lists the routes of the API.
func Operations() []Operation {
	out := make([]Operation, len(operations))
	for i, r := range operations {
		out[i] = Operation{r.method, r.path}
	}
	return out
}

// Takes lists the parameters of a route; "*" = any.
func Takes(o Operation) string {
	for _, r := range operations {
		if o == (Operation{r.method, r.path}) {
			return r.query
		}
	}
	return ""
}
