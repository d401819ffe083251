-- Where the threads of a fork come from. The original may be gone.
CREATE TABLE forks (
  thread_id   TEXT COLLATE "C" PRIMARY KEY REFERENCES threads(id) ON DELETE CASCADE,
  from_thread TEXT COLLATE "C" NOT NULL,
  from_seq    BIGINT NOT NULL, -- messages copied
  at_message  TEXT NOT NULL,   -- as it was asked for; empty = the end
  cut         INTEGER NOT NULL -- 1: its last turn was cut
);
