-- Where the threads of a fork come from. The original may be gone.
CREATE TABLE forks (
  thread_id   TEXT PRIMARY KEY REFERENCES threads(id) ON DELETE CASCADE,
  from_thread TEXT NOT NULL,
  from_seq    INTEGER NOT NULL, -- messages copied
  at_message  TEXT NOT NULL,    -- as it was asked for; empty = the end
  cut         INTEGER NOT NULL  -- 1: its last turn was cut
) WITHOUT ROWID;
