-- What agents want from people: a decision on calls (approval), or an answer to
-- ask_user (question).
DROP TABLE approvals;
DROP TABLE questions;
CREATE TABLE asks (
  id         TEXT PRIMARY KEY,
  kind       TEXT NOT NULL, -- approval, question
  thread_id  TEXT NOT NULL REFERENCES threads(id) ON DELETE CASCADE,
  root_id    TEXT NOT NULL,
  user_id    TEXT NOT NULL,
  turn_id    TEXT NOT NULL,
  step       INTEGER NOT NULL,
  call_id    TEXT NOT NULL, -- of a question; the calls of an approval name it
  agent      TEXT NOT NULL,
  task_id    TEXT NOT NULL,
  task       TEXT NOT NULL,
  body       TEXT NOT NULL,
  outcome    TEXT NOT NULL, -- '' = open; a verdict; answered; aborted
  named      TEXT NOT NULL, -- the calls that the decision named
  approved   TEXT NOT NULL,
  answer     TEXT NOT NULL, -- of a question, or the instruction of an edit
  message_id TEXT NOT NULL, -- of the message that answered, if one did
  settled_by TEXT NOT NULL,
  settled_at INTEGER NOT NULL,
  created_at INTEGER NOT NULL
);
CREATE INDEX asks_open ON asks (root_id, kind) WHERE outcome = '';
CREATE INDEX asks_by_root ON asks (root_id, created_at);
CREATE INDEX asks_by_thread ON asks (thread_id, created_at);
CREATE INDEX asks_by_step ON asks (turn_id, step);
CREATE UNIQUE INDEX asks_by_message ON asks (root_id, message_id) WHERE message_id <> '';

-- The models that were found to take no images, one a line.
ALTER TABLE threads ADD COLUMN no_images TEXT NOT NULL DEFAULT '';
