-- What the agents of a tree have used since the last message of a person.
CREATE TABLE budgets (
  root_id     TEXT PRIMARY KEY REFERENCES threads(id) ON DELETE CASCADE,
  tokens      INTEGER NOT NULL,
  price       REAL NOT NULL,
  work_ms     INTEGER NOT NULL, -- time of model calls and tools
  descendants INTEGER NOT NULL  -- sub-agents made
) WITHOUT ROWID;

-- What model calls under way may cost, until they are settled.
CREATE TABLE reservations (
  turn_id TEXT NOT NULL REFERENCES turns(id) ON DELETE CASCADE,
  step    INTEGER NOT NULL,
  root_id TEXT NOT NULL,
  tokens  INTEGER NOT NULL,
  price   REAL NOT NULL,
  PRIMARY KEY (turn_id, step)
) WITHOUT ROWID;
CREATE INDEX reservations_by_root ON reservations (root_id);

-- Sub-agents that AgentStateManager's clean-up took from its lists.
CREATE TABLE forgotten (
  thread_id TEXT PRIMARY KEY REFERENCES threads(id) ON DELETE CASCADE,
  at        INTEGER NOT NULL
) WITHOUT ROWID;
