#!/bin/sh
# Fetches the libraries of the page from npm into assets/vendor: `sh web/vendor.sh`.
# They are committed, so that nobody needs npm to build.
set -eu
cd "$(dirname "$0")/assets/vendor"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

package() { # name version file-in-package file-here
	mkdir -p "$work/$1"
	tarball=$(cd "$work" && npm pack --silent "$1@$2")
	tar -xzf "$work/$tarball" -C "$work/$1"
	[ "$3" = - ] || sed '/^\/\/# sourceMappingURL/d' "$work/$1/package/$3" >"$4"
}
package preact 10.29.8 dist/preact.module.js preact.js
# A browser does not know packages by name.
sed '/^\/\/# sourceMappingURL/d; s,from"preact",from"./preact.js",' "$work/preact/package/hooks/dist/hooks.module.js" >hooks.js
package htm 3.1.1 dist/htm.module.js htm.js
package marked 18.2.1 lib/marked.esm.js marked.js
package @highlightjs/cdn-assets 11.12.0 es/highlight.min.js highlight.js
for p in preact-10.29.8 htm-3.1.1 marked-18.2.1 @highlightjs/cdn-assets-11.12.0; do
	printf '== %s\n\n' "$p"
	cat "$work/${p%-*}/package/LICENSE"*
	echo
done >LICENSES.txt
