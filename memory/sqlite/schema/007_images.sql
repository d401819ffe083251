-- Images that messages refer to as image:NAME, by a digest of their content.
CREATE TABLE images (
  name    TEXT PRIMARY KEY,
  kept_at INTEGER NOT NULL, -- when somebody gave it for a message to come; 0 = it came
  body    BLOB NOT NULL     -- last: a column behind it is read through all of it
);
CREATE INDEX images_unused ON images (kept_at) WHERE kept_at > 0;

-- Which threads refer to which images, also to such as are not there.
CREATE TABLE image_refs (
  thread_id TEXT NOT NULL REFERENCES threads(id) ON DELETE CASCADE,
  name      TEXT NOT NULL,
  PRIMARY KEY (thread_id, name)
) WITHOUT ROWID;
CREATE INDEX image_refs_by_name ON image_refs (name);
