-- What the agents of a tree have used since the last message of a person.
CREATE TABLE budgets (
  root_id     TEXT COLLATE "C" PRIMARY KEY REFERENCES threads(id) ON DELETE CASCADE,
  tokens      BIGINT NOT NULL,
  price       DOUBLE PRECISION NOT NULL,
  work_ms     BIGINT NOT NULL, -- time of model calls and tools
  descendants BIGINT NOT NULL  -- sub-agents made
);

-- What model calls under way may cost, until they are settled.
CREATE TABLE reservations (
  turn_id TEXT COLLATE "C" NOT NULL REFERENCES turns(id) ON DELETE CASCADE,
  step    INTEGER NOT NULL,
  root_id TEXT COLLATE "C" NOT NULL,
  tokens  BIGINT NOT NULL,
  price   DOUBLE PRECISION NOT NULL,
  PRIMARY KEY (turn_id, step)
);
CREATE INDEX reservations_by_root ON reservations (root_id);

-- Sub-agents that AgentStateManager's clean-up took from its lists.
CREATE TABLE forgotten (
  thread_id TEXT COLLATE "C" PRIMARY KEY REFERENCES threads(id) ON DELETE CASCADE,
  at        BIGINT NOT NULL
);
