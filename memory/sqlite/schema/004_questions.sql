-- What agents ask people by ask_user.
CREATE TABLE questions (
  id          TEXT PRIMARY KEY,
  thread_id   TEXT NOT NULL REFERENCES threads(id) ON DELETE CASCADE,
  root_id     TEXT NOT NULL,
  user_id     TEXT NOT NULL,
  turn_id     TEXT NOT NULL,
  step        INTEGER NOT NULL,
  call_id     TEXT NOT NULL,
  agent       TEXT NOT NULL,
  task_id     TEXT NOT NULL,
  task        TEXT NOT NULL,
  body        TEXT NOT NULL,
  state       TEXT NOT NULL, -- open, answered, aborted
  answer      TEXT NOT NULL,
  message_id  TEXT NOT NULL, -- of the message that answered it, if one did
  answered_by TEXT NOT NULL,
  answered_at INTEGER NOT NULL,
  created_at  INTEGER NOT NULL
);
CREATE INDEX questions_open ON questions (root_id) WHERE state = 'open';
CREATE INDEX questions_by_root ON questions (root_id, created_at);
CREATE INDEX questions_by_thread ON questions (thread_id, created_at);
CREATE INDEX questions_by_step ON questions (turn_id, step);
CREATE UNIQUE INDEX questions_by_message ON questions (root_id, message_id) WHERE message_id <> '';
