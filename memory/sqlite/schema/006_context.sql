-- What a model is told instead of the older messages of a thread. Messages, log
-- and links stay. At most one per cause and step of a turn.
CREATE TABLE summaries (
  turn_id    TEXT NOT NULL REFERENCES turns(id) ON DELETE CASCADE,
  step       INTEGER NOT NULL,
  cause      TEXT NOT NULL,    -- full, refused
  thread_id  TEXT NOT NULL,
  state      TEXT NOT NULL,    -- flight, failed, stored
  attempt    INTEGER NOT NULL,
  failed     INTEGER NOT NULL,
  fence      TEXT NOT NULL,    -- as in steps
  scope      TEXT NOT NULL,
  number     INTEGER NOT NULL,
  from_seq   INTEGER NOT NULL,
  to_seq     INTEGER NOT NULL,
  last_seq   INTEGER NOT NULL, -- the thread's last message when it was made
  body       TEXT NOT NULL,
  tokens     INTEGER NOT NULL, -- the context window it was made for
  model      TEXT NOT NULL,
  used       TEXT NOT NULL,    -- JSON: what making it cost
  created_at INTEGER NOT NULL,
  PRIMARY KEY (turn_id, step, cause)
) WITHOUT ROWID;
CREATE INDEX summaries_by_thread ON summaries (thread_id, last_seq);

ALTER TABLE threads ADD COLUMN compactions INTEGER NOT NULL DEFAULT 0; -- summaries stored
ALTER TABLE threads ADD COLUMN summarized_from INTEGER NOT NULL DEFAULT 0;
ALTER TABLE threads ADD COLUMN summarized_to INTEGER NOT NULL DEFAULT 0;

-- The model that a turn went over to when its own failed.
ALTER TABLE turns ADD COLUMN fallback TEXT NOT NULL DEFAULT '';
-- The JSON schema that a person wants the final answer to have.
ALTER TABLE turns ADD COLUMN answer_schema TEXT NOT NULL DEFAULT '';
ALTER TABLE inbox ADD COLUMN answer_schema TEXT NOT NULL DEFAULT '';
