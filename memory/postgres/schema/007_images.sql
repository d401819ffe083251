-- Images that messages refer to as image:NAME, by a digest of their content.
CREATE TABLE images (
  name    TEXT COLLATE "C" PRIMARY KEY,
  kept_at BIGINT NOT NULL, -- when somebody gave it for a message to come; 0 = it came
  body    BYTEA NOT NULL
);
ALTER TABLE images ALTER COLUMN body SET STORAGE EXTERNAL; -- images are compressed already
CREATE INDEX images_unused ON images (kept_at) WHERE kept_at > 0;

-- Which threads refer to which images, also to such as are not there.
CREATE TABLE image_refs (
  thread_id TEXT COLLATE "C" NOT NULL REFERENCES threads(id) ON DELETE CASCADE,
  name      TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (thread_id, name)
);
CREATE INDEX image_refs_by_name ON image_refs (name);
