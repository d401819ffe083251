-- expands
-- What follows the first part of an output: a program holds one part at a time.
CREATE TABLE output_parts (
  call_id TEXT NOT NULL REFERENCES tool_calls(id) ON DELETE CASCADE,
  n       INTEGER NOT NULL,
  body    TEXT NOT NULL,
  PRIMARY KEY (call_id, n)
);
-- What waits for a user, in order. Some stores of version 1 have it.
CREATE INDEX IF NOT EXISTS asks_by_user ON asks (user_id, kind, outcome, created_at);
