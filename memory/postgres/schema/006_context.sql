-- What a model is told instead of the older messages of a thread. Messages, log
-- and links stay. At most one per cause and step of a turn.
CREATE TABLE summaries (
  turn_id    TEXT COLLATE "C" NOT NULL REFERENCES turns(id) ON DELETE CASCADE,
  step       INTEGER NOT NULL,
  cause      TEXT COLLATE "C" NOT NULL,    -- full, refused
  thread_id  TEXT COLLATE "C" NOT NULL,
  state      TEXT COLLATE "C" NOT NULL,    -- flight, failed, stored
  attempt    INTEGER NOT NULL,
  failed     INTEGER NOT NULL,
  fence      TEXT COLLATE "C" NOT NULL,    -- as in steps
  scope      TEXT COLLATE "C" NOT NULL,
  number     INTEGER NOT NULL,
  from_seq   BIGINT NOT NULL,
  to_seq     BIGINT NOT NULL,
  last_seq   BIGINT NOT NULL, -- the thread's last message when it was made
  body       TEXT COLLATE "C" NOT NULL,
  tokens     BIGINT NOT NULL, -- the context window it was made for
  model      TEXT COLLATE "C" NOT NULL,
  used       TEXT COLLATE "C" NOT NULL,    -- JSON: what making it cost
  created_at BIGINT NOT NULL,
  PRIMARY KEY (turn_id, step, cause)
);
CREATE INDEX summaries_by_thread ON summaries (thread_id, last_seq);

ALTER TABLE threads ADD COLUMN compactions BIGINT NOT NULL DEFAULT 0; -- summaries stored
ALTER TABLE threads ADD COLUMN summarized_from BIGINT NOT NULL DEFAULT 0;
ALTER TABLE threads ADD COLUMN summarized_to BIGINT NOT NULL DEFAULT 0;

-- The model that a turn went over to when its own failed.
ALTER TABLE turns ADD COLUMN fallback TEXT COLLATE "C" NOT NULL DEFAULT '';
-- The JSON schema that a person wants the final answer to have.
ALTER TABLE turns ADD COLUMN answer_schema TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE inbox ADD COLUMN answer_schema TEXT COLLATE "C" NOT NULL DEFAULT '';
