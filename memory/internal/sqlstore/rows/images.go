package rows

import "github.com/spool-agents/spool/agent"

// UseImage marks an image as shown by a message and reports whether it is there.
// Nobody removes it until this transaction ends.
func (u *Unit) UseImage(name string) (bool, error) {
	var keptAt int64
	err := u.Row(`SELECT kept_at FROM images WHERE name = ?`+u.Store.Dialect.LockRow, name).Scan(&keptAt)
	if NoRows(err) {
		return false, nil
	}
	if err != nil || keptAt == 0 {
		return true, err
	}
	return true, u.Exec(`UPDATE images SET kept_at = 0 WHERE name = ?`, name)
}

// Refer notes that a thread refers to the images that a text names, there or not:
// they stay as long as the thread.
func (u *Unit) Refer(threadID, text string) error {
	for _, name := range agent.ImagesIn(text) {
		if _, err := u.UseImage(name); err != nil {
			return err
		}
		err := u.Exec(`INSERT INTO image_refs (thread_id, name) VALUES (?, ?) ON CONFLICT (thread_id, name) DO NOTHING`, threadID, name)
		if err != nil {
			return err
		}
	}
	return nil
}
