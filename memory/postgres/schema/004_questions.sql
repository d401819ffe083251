-- What agents ask people by ask_user.
CREATE TABLE questions (
  id          TEXT COLLATE "C" PRIMARY KEY,
  thread_id   TEXT COLLATE "C" NOT NULL REFERENCES threads(id) ON DELETE CASCADE,
  root_id     TEXT COLLATE "C" NOT NULL,
  user_id     TEXT COLLATE "C" NOT NULL,
  turn_id     TEXT COLLATE "C" NOT NULL,
  step        INTEGER NOT NULL,
  call_id     TEXT COLLATE "C" NOT NULL,
  agent       TEXT COLLATE "C" NOT NULL,
  task_id     TEXT COLLATE "C" NOT NULL,
  task        TEXT COLLATE "C" NOT NULL,
  body        TEXT COLLATE "C" NOT NULL,
  state       TEXT COLLATE "C" NOT NULL, -- open, answered, aborted
  answer      TEXT COLLATE "C" NOT NULL,
  message_id  TEXT COLLATE "C" NOT NULL, -- of the message that answered it, if one did
  answered_by TEXT COLLATE "C" NOT NULL,
  answered_at BIGINT NOT NULL,
  created_at  BIGINT NOT NULL
);
CREATE INDEX questions_open ON questions (root_id) WHERE state = 'open';
CREATE INDEX questions_by_root ON questions (root_id, created_at);
CREATE INDEX questions_by_thread ON questions (thread_id, created_at);
CREATE INDEX questions_by_step ON questions (turn_id, step);
CREATE UNIQUE INDEX questions_by_message ON questions (root_id, message_id) WHERE message_id <> '';
