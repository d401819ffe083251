package webuser

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachUserHasAFolder(t *testing.T) {
	seen := map[string]string{}
	for _, user := range []string{"eve", "Eve", "ada@example.com", ".", "..", "%2E", "a\\b", "ü", "con.", "-rf", "web-users", "eve.", "\u202eeve", strings.Repeat("A", 128), strings.Repeat("A", 127) + "B"} {
		folder := Folder(user)
		require.Equal(t, 1, strings.Count(folder, "/"), "%q: %s", user, folder)
		require.Less(t, len(folder), 255, user)
		require.False(t, strings.ContainsAny(folder, "\\ \x00") || strings.Contains(folder, "/.") || folder != strings.ToValidUTF8(folder, ""), "%q: %s", user, folder)
		key := strings.ToLower(folder)
		require.NotContains(t, seen, key, "%q and %q share a folder", user, seen[key])
		seen[key] = user
	}
}

func TestInUserFolder(t *testing.T) {
	for _, c := range []struct{ folder, sub string }{
		{"/w/web-users/eve", "."},
		{"/elsewhere/web-users/eve/a/b/", "a/b"},
		{"web-users/eve", "."},
		{"/w/web-users/eve/../bob", ""},
		{"/w/web-users/eve/..", ""},
		{"/w/web-users/evelyn", ""},
		{"/w/web-users", ""},
		{"/w", ""},
		{"", ""},
	} {
		sub, ok := InFolder("eve", c.folder)
		require.Equal(t, c.sub, sub, c.folder)
		require.Equal(t, c.sub != "", ok, c.folder)
	}
	_, ok := InFolder("", "/w/web-users")
	require.False(t, ok, "who has no name has no folder")
}
