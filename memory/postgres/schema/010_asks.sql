-- What agents want from people: a decision on calls (approval), or an answer to
-- ask_user (question).
DROP TABLE approvals;
DROP TABLE questions;
CREATE TABLE asks (
  id         TEXT COLLATE "C" PRIMARY KEY,
  kind       TEXT COLLATE "C" NOT NULL, -- approval, question
  thread_id  TEXT COLLATE "C" NOT NULL REFERENCES threads(id) ON DELETE CASCADE,
  root_id    TEXT COLLATE "C" NOT NULL,
  user_id    TEXT COLLATE "C" NOT NULL,
  turn_id    TEXT COLLATE "C" NOT NULL,
  step       INTEGER NOT NULL,
  call_id    TEXT COLLATE "C" NOT NULL, -- of a question; the calls of an approval name it
  agent      TEXT COLLATE "C" NOT NULL,
  task_id    TEXT COLLATE "C" NOT NULL,
  task       TEXT COLLATE "C" NOT NULL,
  body       TEXT COLLATE "C" NOT NULL,
  outcome    TEXT COLLATE "C" NOT NULL, -- '' = open; a verdict; answered; aborted
  named      TEXT COLLATE "C" NOT NULL, -- the calls that the decision named
  approved   TEXT COLLATE "C" NOT NULL,
  answer     TEXT COLLATE "C" NOT NULL, -- of a question, or the instruction of an edit
  message_id TEXT COLLATE "C" NOT NULL, -- of the message that answered, if one did
  settled_by TEXT COLLATE "C" NOT NULL,
  settled_at BIGINT NOT NULL,
  created_at BIGINT NOT NULL
);
CREATE INDEX asks_open ON asks (root_id, kind) WHERE outcome = '';
CREATE INDEX asks_by_root ON asks (root_id, created_at);
CREATE INDEX asks_by_thread ON asks (thread_id, created_at);
CREATE INDEX asks_by_step ON asks (turn_id, step);
CREATE UNIQUE INDEX asks_by_message ON asks (root_id, message_id) WHERE message_id <> '';

-- The models that were found to take no images, one a line.
ALTER TABLE threads ADD COLUMN no_images TEXT COLLATE "C" NOT NULL DEFAULT '';
