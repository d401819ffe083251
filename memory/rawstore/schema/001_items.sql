CREATE TABLE memory_items (
  key  TEXT   NOT NULL,
  ord  BIGINT NOT NULL, -- dense per key, from 1
  id   TEXT,            -- NULL: not to be recognised when it is appended again
  body TEXT   NOT NULL,
  PRIMARY KEY (key, ord)
);
CREATE UNIQUE INDEX memory_items_id ON memory_items (key, id);
