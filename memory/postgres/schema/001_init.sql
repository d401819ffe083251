-- All times are unix milliseconds by the database's clock, all flags 0 or 1, all
-- structured values JSON. Empty text stands for "none". All texts are compared and
-- sorted by their bytes, whatever the database's collation is.

-- Counts commits, so that a follower asks one number instead of every thread.
-- Each connection counts in a row of its own (by its process id), so that no two
-- commits wait for each other; the number is the sum.
CREATE TABLE changes (
  shard INTEGER PRIMARY KEY,
  n     BIGINT NOT NULL
) WITH (fillfactor = 10);
INSERT INTO changes (shard, n) SELECT shard, 0 FROM generate_series(0, 63) AS shard;

CREATE TABLE sessions (
  id         TEXT COLLATE "C" PRIMARY KEY,
  user_id    TEXT COLLATE "C" NOT NULL,
  profile    TEXT COLLATE "C" NOT NULL,
  created_at BIGINT NOT NULL
);

-- What a person approved for the rest of a session: JSON of tool, agent, and source of the agent.
CREATE TABLE approved_tools (
  session_id TEXT COLLATE "C" NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
  tool_name  TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (session_id, tool_name)
);

-- Snapshots of template values, by the hash of their text: they are large,
-- shared by many threads, and must not be rewritten with every counter.
CREATE TABLE configs (
  hash TEXT COLLATE "C" PRIMARY KEY,
  body TEXT COLLATE "C" NOT NULL
);

CREATE TABLE threads (
  id                TEXT COLLATE "C" PRIMARY KEY,
  user_id           TEXT COLLATE "C" NOT NULL,
  profile           TEXT COLLATE "C" NOT NULL,
  session_id        TEXT COLLATE "C" NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
  conversation_id   TEXT COLLATE "C" NOT NULL,
  kind              TEXT COLLATE "C" NOT NULL,
  agent_type        TEXT COLLATE "C" NOT NULL,
  agent_id          TEXT COLLATE "C" NOT NULL,
  parent_id         TEXT COLLATE "C" NOT NULL,
  root_id           TEXT COLLATE "C" NOT NULL,
  parent_call_id    TEXT COLLATE "C" NOT NULL,
  task_id           TEXT COLLATE "C" NOT NULL,
  depth             INTEGER NOT NULL,
  ordinal           BIGINT NOT NULL, -- n-th child of its parent
  status            TEXT COLLATE "C" NOT NULL,
  reason            TEXT COLLATE "C" NOT NULL,
  summary           TEXT COLLATE "C" NOT NULL,
  workdir           TEXT COLLATE "C" NOT NULL,
  config_hash       TEXT COLLATE "C" NOT NULL,
  pick_model        TEXT COLLATE "C" NOT NULL,    -- the model a person chose
  open_turn         TEXT COLLATE "C" NOT NULL,
  created_at        BIGINT NOT NULL,
  updated_at        BIGINT NOT NULL,
  topic             TEXT COLLATE "C" NOT NULL,
  message_count     BIGINT NOT NULL,
  total_tokens      BIGINT NOT NULL,
  prompt_tokens     BIGINT NOT NULL,
  completion_tokens BIGINT NOT NULL,
  window_prompt     BIGINT NOT NULL,
  window_completion BIGINT NOT NULL,
  window_total      BIGINT NOT NULL,
  request_count     BIGINT NOT NULL,
  tool_call_count   BIGINT NOT NULL,
  total_time_ms     BIGINT NOT NULL,
  total_price       DOUBLE PRECISION NOT NULL,
  last_event        BIGINT NOT NULL, -- counters: the last number given
  last_message      BIGINT NOT NULL,
  last_entry        BIGINT NOT NULL,
  last_turn         BIGINT NOT NULL,
  last_child        BIGINT NOT NULL,
  waiting           BIGINT NOT NULL, -- inbox entries in state waiting
  compactions       BIGINT NOT NULL, -- summaries stored
  summarized_from   BIGINT NOT NULL,
  summarized_to     BIGINT NOT NULL,
  no_images TEXT COLLATE "C" NOT NULL DEFAULT '' -- models that were found to take no images, one a line
);
CREATE INDEX threads_by_activity ON threads (user_id, kind, updated_at);
CREATE INDEX threads_by_session ON threads (session_id);
CREATE INDEX threads_by_root ON threads (root_id);
CREATE INDEX threads_by_parent ON threads (parent_id, ordinal) WHERE parent_id <> '';
CREATE INDEX threads_by_agent ON threads (agent_id) WHERE agent_id <> '';

CREATE TABLE inbox (
  thread_id        TEXT COLLATE "C" NOT NULL REFERENCES threads(id) ON DELETE CASCADE,
  seq              BIGINT NOT NULL,
  kind             TEXT COLLATE "C" NOT NULL,
  id               TEXT COLLATE "C" NOT NULL,
  state            TEXT COLLATE "C" NOT NULL,
  when_busy        TEXT COLLATE "C" NOT NULL,
  turn_id          TEXT COLLATE "C" NOT NULL,
  taken_by         TEXT COLLATE "C" NOT NULL,
  content          TEXT COLLATE "C" NOT NULL,
  agent            TEXT COLLATE "C" NOT NULL,
  model            TEXT COLLATE "C" NOT NULL,
  message_id       TEXT COLLATE "C" NOT NULL, -- of a retry: the user message it answers again
  retry_no         INTEGER NOT NULL,
  config_hash      TEXT COLLATE "C" NOT NULL, -- of an assignment
  child_thread     TEXT COLLATE "C" NOT NULL,
  child_turn       TEXT COLLATE "C" NOT NULL,
  call_id          TEXT COLLATE "C" NOT NULL,
  task_id          TEXT COLLATE "C" NOT NULL,
  background       INTEGER NOT NULL,
  delegator_thread TEXT COLLATE "C" NOT NULL,
  delegator_turn   TEXT COLLATE "C" NOT NULL,
  created_at       BIGINT NOT NULL,
  quiet            INTEGER NOT NULL,
  answer_schema    TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (thread_id, seq)
);
CREATE UNIQUE INDEX inbox_by_id ON inbox (thread_id, kind, id);
CREATE INDEX inbox_waiting ON inbox (thread_id, seq) WHERE state = 'waiting';
CREATE INDEX inbox_overdue ON inbox (created_at) WHERE state = 'waiting';
CREATE INDEX inbox_assigned ON inbox (delegator_thread) WHERE state = 'waiting' AND kind = 'assign';

CREATE TABLE turns (
  id                TEXT COLLATE "C" PRIMARY KEY,
  thread_id         TEXT COLLATE "C" NOT NULL REFERENCES threads(id) ON DELETE CASCADE,
  n                 BIGINT NOT NULL,
  entry_kind        TEXT COLLATE "C" NOT NULL,
  message_id        TEXT COLLATE "C" NOT NULL,
  retry_of          TEXT COLLATE "C" NOT NULL,
  retry_no          INTEGER NOT NULL,
  state             TEXT COLLATE "C" NOT NULL,
  outcome           TEXT COLLATE "C" NOT NULL,
  reason            TEXT COLLATE "C" NOT NULL,
  error_code        TEXT COLLATE "C" NOT NULL,
  error             TEXT COLLATE "C" NOT NULL,
  answer            TEXT COLLATE "C" NOT NULL,
  answer_seq        BIGINT NOT NULL, -- of the final or partial message
  steps             INTEGER NOT NULL, -- steps begun
  saved             INTEGER NOT NULL, -- steps whose messages are appended
  delegations       INTEGER NOT NULL, -- foreground delegations opened
  prompt_tokens     BIGINT NOT NULL,
  completion_tokens BIGINT NOT NULL,
  total_tokens      BIGINT NOT NULL,
  cached_tokens     BIGINT NOT NULL,
  reasoning_tokens  BIGINT NOT NULL,
  price             DOUBLE PRECISION NOT NULL,
  requests          BIGINT NOT NULL,
  tool_calls        BIGINT NOT NULL,
  next_turn         TEXT COLLATE "C" NOT NULL,
  run_id            TEXT COLLATE "C" NOT NULL,
  delegator_thread  TEXT COLLATE "C" NOT NULL,
  delegator_turn    TEXT COLLATE "C" NOT NULL,
  delegator_call    TEXT COLLATE "C" NOT NULL,
  background        INTEGER NOT NULL,
  task_id           TEXT COLLATE "C" NOT NULL,
  cancel_at         BIGINT NOT NULL,
  cancel_by         TEXT COLLATE "C" NOT NULL,
  waited_ms         BIGINT NOT NULL,
  opened_at         BIGINT NOT NULL,
  closed_at         BIGINT NOT NULL,
  closed            TEXT COLLATE "C" NOT NULL, -- what the first close returned
  -- How often a turn's worker died, and its share of the blame.
  losses            INTEGER NOT NULL DEFAULT 0,
  blame             DOUBLE PRECISION NOT NULL DEFAULT 0,
  lost_at           BIGINT NOT NULL DEFAULT 0,
  -- An end that is told with the next message only: it opens no turn.
  quiet             INTEGER NOT NULL,
  -- The model that a turn went over to when its own failed.
  fallback          TEXT COLLATE "C" NOT NULL,
  -- The JSON schema that a person wants the final answer to have.
  answer_schema     TEXT COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX turns_by_thread ON turns (thread_id, n);
CREATE INDEX turns_open ON turns (opened_at) WHERE state = 'open';
CREATE INDEX turns_delegated ON turns (delegator_thread) WHERE state = 'open' AND delegator_thread <> '';

CREATE TABLE steps (
  turn_id       TEXT COLLATE "C" NOT NULL REFERENCES turns(id) ON DELETE CASCADE,
  step          INTEGER NOT NULL,
  state         TEXT COLLATE "C" NOT NULL,    -- flight, failed, stored, saved
  attempt       INTEGER NOT NULL,
  failed        INTEGER NOT NULL,
  fence         TEXT COLLATE "C" NOT NULL,    -- highest number seen per scope
  scope         TEXT COLLATE "C" NOT NULL,    -- of the current attempt
  number        INTEGER NOT NULL,
  text_len      BIGINT NOT NULL, -- bytes streamed by the current attempt
  reasoning_len BIGINT NOT NULL,
  reply         TEXT COLLATE "C" NOT NULL,
  duration_ms   BIGINT NOT NULL,
  from_seq      BIGINT NOT NULL,
  to_seq        BIGINT NOT NULL,
  round         TEXT COLLATE "C" NOT NULL,    -- what SaveToolRound returned
  last_code     TEXT COLLATE "C" NOT NULL,
  last_err      TEXT COLLATE "C" NOT NULL,
  -- The worker process that has an attempt in flight; '' = none, or it is known
  -- to be gone and its turns were blamed for it.
  worker        TEXT COLLATE "C" NOT NULL,
  -- JSON: what a step's attempts have used that gave no reply, what the one under way
  -- is charged if nobody reports on it, and how the latest ones failed.
  account       TEXT COLLATE "C" NOT NULL,
  -- When the call of a failed attempt is made again, and why it failed: JSON.
  wait          TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (turn_id, step)
);
CREATE INDEX steps_in_flight ON steps (worker) WHERE worker <> '';
CREATE INDEX steps_waiting ON steps (turn_id) WHERE state = 'failed' AND wait <> '';

-- Streamed text, until the message is saved. Blobs: a piece may end inside a character.
CREATE TABLE chunks (
  turn_id   TEXT COLLATE "C" NOT NULL,
  step      INTEGER NOT NULL,
  n         BIGINT NOT NULL, -- text and reasoning bytes before this piece
  body      BYTEA NOT NULL,
  reasoning BYTEA NOT NULL,
  PRIMARY KEY (turn_id, step, n)
);

CREATE TABLE messages (
  thread_id     TEXT COLLATE "C" NOT NULL REFERENCES threads(id) ON DELETE CASCADE,
  seq           BIGINT NOT NULL,
  id            TEXT COLLATE "C" NOT NULL,
  superseded_by TEXT COLLATE "C" NOT NULL,
  body          TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (thread_id, seq)
);
CREATE UNIQUE INDEX messages_by_id ON messages (thread_id, id);

CREATE TABLE events (
  thread_id TEXT COLLATE "C" NOT NULL REFERENCES threads(id) ON DELETE CASCADE,
  seq       BIGINT NOT NULL,
  type      TEXT COLLATE "C" NOT NULL,
  turn_id   TEXT COLLATE "C" NOT NULL,
  data      TEXT COLLATE "C" NOT NULL,
  at        BIGINT NOT NULL,
  PRIMARY KEY (thread_id, seq)
);

CREATE TABLE tool_calls (
  id             TEXT COLLATE "C" PRIMARY KEY,
  thread_id      TEXT COLLATE "C" NOT NULL REFERENCES threads(id) ON DELETE CASCADE,
  turn_id        TEXT COLLATE "C" NOT NULL,
  step           INTEGER NOT NULL,
  idx            INTEGER NOT NULL,
  name           TEXT COLLATE "C" NOT NULL,
  args           TEXT COLLATE "C" NOT NULL,
  status         TEXT COLLATE "C" NOT NULL,
  gate           TEXT COLLATE "C" NOT NULL,
  delegation     INTEGER NOT NULL,
  approval_id    TEXT COLLATE "C" NOT NULL,
  attempts       INTEGER NOT NULL,
  fence          TEXT COLLATE "C" NOT NULL,
  scope          TEXT COLLATE "C" NOT NULL,
  number         INTEGER NOT NULL,
  repeatable     INTEGER NOT NULL,
  result         TEXT COLLATE "C" NOT NULL,
  error_reason   TEXT COLLATE "C" NOT NULL,
  duration_ms    BIGINT NOT NULL,
  child_thread   TEXT COLLATE "C" NOT NULL,
  child_agent    TEXT COLLATE "C" NOT NULL,
  child_turn     TEXT COLLATE "C" NOT NULL,
  background     INTEGER NOT NULL,
  task_id        TEXT COLLATE "C" NOT NULL,
  created_at     BIGINT NOT NULL,
  updated_at     BIGINT NOT NULL,
  worker         TEXT COLLATE "C" NOT NULL
);
CREATE INDEX tool_calls_by_step ON tool_calls (turn_id, step, idx);
CREATE INDEX tool_calls_by_thread ON tool_calls (thread_id, created_at);
CREATE INDEX tool_calls_in_flight ON tool_calls (worker) WHERE worker <> '';

-- Whole outputs of which the model was shown a part.
CREATE TABLE outputs (
  call_id TEXT COLLATE "C" PRIMARY KEY REFERENCES tool_calls(id) ON DELETE CASCADE,
  body    TEXT COLLATE "C" NOT NULL
);


CREATE TABLE tasks (
  id          TEXT COLLATE "C" PRIMARY KEY,
  thread_id   TEXT COLLATE "C" NOT NULL REFERENCES threads(id) ON DELETE CASCADE,
  type        TEXT COLLATE "C" NOT NULL,
  name        TEXT COLLATE "C" NOT NULL,
  instruction TEXT COLLATE "C" NOT NULL,
  sub_agent   TEXT COLLATE "C" NOT NULL,
  status      TEXT COLLATE "C" NOT NULL,
  result      TEXT COLLATE "C" NOT NULL,
  error       TEXT COLLATE "C" NOT NULL,
  trigger_id  TEXT COLLATE "C" NOT NULL,
  created_at  BIGINT NOT NULL,
  updated_at  BIGINT NOT NULL
);
CREATE INDEX tasks_by_thread ON tasks (thread_id, created_at);

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


-- Where the threads of a fork come from. The original may be gone.
CREATE TABLE forks (
  thread_id   TEXT COLLATE "C" PRIMARY KEY REFERENCES threads(id) ON DELETE CASCADE,
  from_thread TEXT COLLATE "C" NOT NULL,
  from_seq    BIGINT NOT NULL, -- messages copied
  at_message  TEXT COLLATE "C" NOT NULL, -- as it was asked for; empty = the end
  cut         INTEGER NOT NULL -- 1: its last turn was cut
);

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

-- Images that messages refer to as image:NAME, by a digest of their content.
CREATE TABLE images (
  name    TEXT COLLATE "C" PRIMARY KEY,
  kept_at BIGINT NOT NULL, -- when somebody gave it for a message to come; 0 = it came
  body    BYTEA NOT NULL
);
ALTER TABLE images ALTER COLUMN body SET STORAGE EXTERNAL; -- images are compressed already
CREATE INDEX images_unused ON images (kept_at) WHERE kept_at > 0;

-- Which threads refer to which images, also to such as are not there.
CREATE TABLE image_refs (
  thread_id TEXT COLLATE "C" NOT NULL REFERENCES threads(id) ON DELETE CASCADE,
  name      TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (thread_id, name)
);
CREATE INDEX image_refs_by_name ON image_refs (name);

-- What agents want from people: a decision on calls (approval), or an answer to
-- ask_user (question).
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
