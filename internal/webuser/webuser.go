// Package webuser says where users of the web server work.
package webuser

import (
	"crypto/sha256"
	"fmt"
	"path"
	"strings"
)

// webUsers is the folder of a workspace in which each user of the web server, but for
// its administrator, has a folder.
const webUsers = "web-users"

const longestFolder = 200

// Folder is the folder of a user of the web server, below the workspace. Each user
// has another one, on systems too that take A and a for the same.
func Folder(user string) string {
	var b strings.Builder
	for i := range len(user) {
		c := user[i]
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("_-@+", c) >= 0 || c == '.' && i > 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	name := b.String()
	if len(name) > longestFolder { // file systems take 255 bytes
		name = fmt.Sprintf("%s-%x", name[:longestFolder-33], sha256.Sum256([]byte(user)))[:longestFolder]
	}
	return path.Join(webUsers, name)
}

// InFolder finds where a folder lies in that of a user: "." is the user's folder
// itself. It looks at names only, as the workspace of another machine has another path.
func InFolder(user, folder string) (sub string, ok bool) {
	own := "/" + Folder(user) + "/"
	at := path.Clean("/"+folder) + "/"
	i := strings.LastIndex(at, own)
	if i < 0 || user == "" {
		return "", false
	}
	return path.Clean(at[i+len(own):]), true
}
