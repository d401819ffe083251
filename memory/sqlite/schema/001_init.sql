-- All times are unix milliseconds by the store's clock, all flags 0 or 1, all
-- structured values JSON. Empty text stands for "none".

CREATE TABLE sessions (
  id         TEXT PRIMARY KEY,
  user_id    TEXT NOT NULL,
  profile    TEXT NOT NULL,
  created_at INTEGER NOT NULL
);

-- What a person approved for the rest of a session: JSON of tool, agent, and source of the agent.
CREATE TABLE approved_tools (
  session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
  tool_name  TEXT NOT NULL,
  PRIMARY KEY (session_id, tool_name)
) WITHOUT ROWID;

-- Snapshots of template values, by the hash of their text: they are large,
-- shared by many threads, and must not be rewritten with every counter.
CREATE TABLE configs (
  hash TEXT PRIMARY KEY,
  body TEXT NOT NULL
);

CREATE TABLE threads (
  id                TEXT PRIMARY KEY,
  user_id           TEXT NOT NULL,
  profile           TEXT NOT NULL,
  session_id        TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
  conversation_id   TEXT NOT NULL,
  kind              TEXT NOT NULL,
  agent_type        TEXT NOT NULL,
  agent_id          TEXT NOT NULL,
  parent_id         TEXT NOT NULL,
  root_id           TEXT NOT NULL,
  parent_call_id    TEXT NOT NULL,
  task_id           TEXT NOT NULL,
  depth             INTEGER NOT NULL,
  ordinal           INTEGER NOT NULL, -- n-th child of its parent
  status            TEXT NOT NULL,
  reason            TEXT NOT NULL,
  summary           TEXT NOT NULL,
  workdir           TEXT NOT NULL,
  config_hash       TEXT NOT NULL,
  pick_model        TEXT NOT NULL,    -- the model a person chose
  open_turn         TEXT NOT NULL,
  created_at        INTEGER NOT NULL,
  updated_at        INTEGER NOT NULL,
  topic             TEXT NOT NULL,
  message_count     INTEGER NOT NULL,
  total_tokens      INTEGER NOT NULL,
  prompt_tokens     INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL,
  window_prompt     INTEGER NOT NULL,
  window_completion INTEGER NOT NULL,
  window_total      INTEGER NOT NULL,
  request_count     INTEGER NOT NULL,
  tool_call_count   INTEGER NOT NULL,
  total_time_ms     INTEGER NOT NULL,
  total_price       REAL NOT NULL,
  last_event        INTEGER NOT NULL, -- counters: the last number given
  last_message      INTEGER NOT NULL,
  last_entry        INTEGER NOT NULL,
  last_turn         INTEGER NOT NULL,
  last_child        INTEGER NOT NULL,
  waiting           INTEGER NOT NULL, -- inbox entries in state waiting
  compactions       INTEGER NOT NULL, -- summaries stored
  summarized_from   INTEGER NOT NULL,
  summarized_to     INTEGER NOT NULL,
  no_images TEXT NOT NULL DEFAULT '' -- models that were found to take no images, one a line
);
CREATE INDEX threads_by_activity ON threads (user_id, kind, updated_at);
CREATE INDEX threads_by_session ON threads (session_id);
CREATE INDEX threads_by_root ON threads (root_id);
CREATE INDEX threads_by_parent ON threads (parent_id, ordinal) WHERE parent_id <> '';
CREATE INDEX threads_by_agent ON threads (agent_id) WHERE agent_id <> '';

CREATE TABLE inbox (
  thread_id        TEXT NOT NULL REFERENCES threads(id) ON DELETE CASCADE,
  seq              INTEGER NOT NULL,
  kind             TEXT NOT NULL,
  id               TEXT NOT NULL,
  state            TEXT NOT NULL,
  when_busy        TEXT NOT NULL,
  turn_id          TEXT NOT NULL,
  taken_by         TEXT NOT NULL,
  content          TEXT NOT NULL,
  agent            TEXT NOT NULL,
  model            TEXT NOT NULL,
  message_id       TEXT NOT NULL, -- of a retry: the user message it answers again
  retry_no         INTEGER NOT NULL,
  config_hash      TEXT NOT NULL, -- of an assignment
  child_thread     TEXT NOT NULL,
  child_turn       TEXT NOT NULL,
  call_id          TEXT NOT NULL,
  task_id          TEXT NOT NULL,
  background       INTEGER NOT NULL,
  delegator_thread TEXT NOT NULL,
  delegator_turn   TEXT NOT NULL,
  created_at       INTEGER NOT NULL,
  quiet            INTEGER NOT NULL,
  answer_schema    TEXT NOT NULL,
  PRIMARY KEY (thread_id, seq)
);
CREATE UNIQUE INDEX inbox_by_id ON inbox (thread_id, kind, id);
CREATE INDEX inbox_waiting ON inbox (thread_id, seq) WHERE state = 'waiting';
CREATE INDEX inbox_overdue ON inbox (created_at) WHERE state = 'waiting';
CREATE INDEX inbox_assigned ON inbox (delegator_thread) WHERE state = 'waiting' AND kind = 'assign';

CREATE TABLE turns (
  id                TEXT PRIMARY KEY,
  thread_id         TEXT NOT NULL REFERENCES threads(id) ON DELETE CASCADE,
  n                 INTEGER NOT NULL,
  entry_kind        TEXT NOT NULL,
  message_id        TEXT NOT NULL,
  retry_of          TEXT NOT NULL,
  retry_no          INTEGER NOT NULL,
  state             TEXT NOT NULL,
  outcome           TEXT NOT NULL,
  reason            TEXT NOT NULL,
  error_code        TEXT NOT NULL,
  error             TEXT NOT NULL,
  answer            TEXT NOT NULL,
  answer_seq        INTEGER NOT NULL, -- of the final or partial message
  steps             INTEGER NOT NULL, -- steps begun
  saved             INTEGER NOT NULL, -- steps whose messages are appended
  delegations       INTEGER NOT NULL, -- foreground delegations opened
  prompt_tokens     INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL,
  total_tokens      INTEGER NOT NULL,
  cached_tokens     INTEGER NOT NULL,
  reasoning_tokens  INTEGER NOT NULL,
  price             REAL NOT NULL,
  requests          INTEGER NOT NULL,
  tool_calls        INTEGER NOT NULL,
  next_turn         TEXT NOT NULL,
  run_id            TEXT NOT NULL,
  delegator_thread  TEXT NOT NULL,
  delegator_turn    TEXT NOT NULL,
  delegator_call    TEXT NOT NULL,
  background        INTEGER NOT NULL,
  task_id           TEXT NOT NULL,
  cancel_at         INTEGER NOT NULL,
  cancel_by         TEXT NOT NULL,
  waited_ms         INTEGER NOT NULL,
  opened_at         INTEGER NOT NULL,
  closed_at         INTEGER NOT NULL,
  closed            TEXT NOT NULL, -- what the first close returned
  -- How often a turn's worker died, and its share of the blame.
  losses            INTEGER NOT NULL DEFAULT 0,
  blame             REAL NOT NULL DEFAULT 0,
  lost_at           INTEGER NOT NULL DEFAULT 0,
  -- An end that is told with the next message only: it opens no turn.
  quiet             INTEGER NOT NULL,
  -- The model that a turn went over to when its own failed.
  fallback          TEXT NOT NULL,
  -- The JSON schema that a person wants the final answer to have.
  answer_schema     TEXT NOT NULL
);
CREATE UNIQUE INDEX turns_by_thread ON turns (thread_id, n);
CREATE INDEX turns_open ON turns (opened_at) WHERE state = 'open';
CREATE INDEX turns_delegated ON turns (delegator_thread) WHERE state = 'open' AND delegator_thread <> '';

CREATE TABLE steps (
  turn_id       TEXT NOT NULL REFERENCES turns(id) ON DELETE CASCADE,
  step          INTEGER NOT NULL,
  state         TEXT NOT NULL,    -- flight, failed, stored, saved
  attempt       INTEGER NOT NULL,
  failed        INTEGER NOT NULL,
  fence         TEXT NOT NULL,    -- highest number seen per scope
  scope         TEXT NOT NULL,    -- of the current attempt
  number        INTEGER NOT NULL,
  text_len      INTEGER NOT NULL, -- bytes streamed by the current attempt
  reasoning_len INTEGER NOT NULL,
  reply         TEXT NOT NULL,
  duration_ms   INTEGER NOT NULL,
  from_seq      INTEGER NOT NULL,
  to_seq        INTEGER NOT NULL,
  round         TEXT NOT NULL,    -- what SaveToolRound returned
  last_code     TEXT NOT NULL,
  last_err      TEXT NOT NULL,
  -- The worker process that has an attempt in flight; '' = none, or it is known
  -- to be gone and its turns were blamed for it.
  worker        TEXT NOT NULL,
  -- JSON: what a step's attempts have used that gave no reply, what the one under way
  -- is charged if nobody reports on it, and how the latest ones failed.
  account       TEXT NOT NULL,
  -- When the call of a failed attempt is made again, and why it failed: JSON.
  wait          TEXT NOT NULL,
  PRIMARY KEY (turn_id, step)
);
CREATE INDEX steps_in_flight ON steps (worker) WHERE worker <> '';
CREATE INDEX steps_waiting ON steps (turn_id) WHERE state = 'failed' AND wait <> '';

-- Streamed text, until the message is saved. Blobs: a piece may end inside a character.
CREATE TABLE chunks (
  turn_id   TEXT NOT NULL,
  step      INTEGER NOT NULL,
  n         INTEGER NOT NULL, -- text and reasoning bytes before this piece
  body      BLOB NOT NULL,
  reasoning BLOB NOT NULL,
  PRIMARY KEY (turn_id, step, n)
) WITHOUT ROWID;

CREATE TABLE messages (
  thread_id     TEXT NOT NULL REFERENCES threads(id) ON DELETE CASCADE,
  seq           INTEGER NOT NULL,
  id            TEXT NOT NULL,
  superseded_by TEXT NOT NULL,
  body          TEXT NOT NULL,
  PRIMARY KEY (thread_id, seq)
);
CREATE UNIQUE INDEX messages_by_id ON messages (thread_id, id);

CREATE TABLE events (
  thread_id TEXT NOT NULL REFERENCES threads(id) ON DELETE CASCADE,
  seq       INTEGER NOT NULL,
  type      TEXT NOT NULL,
  turn_id   TEXT NOT NULL,
  data      TEXT NOT NULL,
  at        INTEGER NOT NULL,
  PRIMARY KEY (thread_id, seq)
);

CREATE TABLE tool_calls (
  id             TEXT PRIMARY KEY,
  thread_id      TEXT NOT NULL REFERENCES threads(id) ON DELETE CASCADE,
  turn_id        TEXT NOT NULL,
  step           INTEGER NOT NULL,
  idx            INTEGER NOT NULL,
  name           TEXT NOT NULL,
  args           TEXT NOT NULL,
  status         TEXT NOT NULL,
  gate           TEXT NOT NULL,
  delegation     INTEGER NOT NULL,
  approval_id    TEXT NOT NULL,
  attempts       INTEGER NOT NULL,
  fence          TEXT NOT NULL,
  scope          TEXT NOT NULL,
  number         INTEGER NOT NULL,
  repeatable     INTEGER NOT NULL,
  result         TEXT NOT NULL,
  error_reason   TEXT NOT NULL,
  duration_ms    INTEGER NOT NULL,
  child_thread   TEXT NOT NULL,
  child_agent    TEXT NOT NULL,
  child_turn     TEXT NOT NULL,
  background     INTEGER NOT NULL,
  task_id        TEXT NOT NULL,
  created_at     INTEGER NOT NULL,
  updated_at     INTEGER NOT NULL,
  worker         TEXT NOT NULL
);
CREATE INDEX tool_calls_by_step ON tool_calls (turn_id, step, idx);
CREATE INDEX tool_calls_by_thread ON tool_calls (thread_id, created_at);
CREATE INDEX tool_calls_in_flight ON tool_calls (worker) WHERE worker <> '';

-- Whole outputs of which the model was shown a part.
CREATE TABLE outputs (
  call_id TEXT PRIMARY KEY REFERENCES tool_calls(id) ON DELETE CASCADE,
  body    TEXT NOT NULL
);


CREATE TABLE tasks (
  id          TEXT PRIMARY KEY,
  thread_id   TEXT NOT NULL REFERENCES threads(id) ON DELETE CASCADE,
  type        TEXT NOT NULL,
  name        TEXT NOT NULL,
  instruction TEXT NOT NULL,
  sub_agent   TEXT NOT NULL,
  status      TEXT NOT NULL,
  result      TEXT NOT NULL,
  error       TEXT NOT NULL,
  trigger_id  TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  updated_at  INTEGER NOT NULL
);
CREATE INDEX tasks_by_thread ON tasks (thread_id, created_at);

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


-- Where the threads of a fork come from. The original may be gone.
CREATE TABLE forks (
  thread_id   TEXT PRIMARY KEY REFERENCES threads(id) ON DELETE CASCADE,
  from_thread TEXT NOT NULL,
  from_seq    INTEGER NOT NULL, -- messages copied
  at_message  TEXT NOT NULL,    -- as it was asked for; empty = the end
  cut         INTEGER NOT NULL  -- 1: its last turn was cut
) WITHOUT ROWID;

-- What a model is told instead of the older messages of a thread. Messages, log
-- and links stay. At most one per cause and step of a turn.
CREATE TABLE summaries (
  turn_id    TEXT NOT NULL REFERENCES turns(id) ON DELETE CASCADE,
  step       INTEGER NOT NULL,
  cause      TEXT NOT NULL,    -- full, refused
  thread_id  TEXT NOT NULL,
  state      TEXT NOT NULL,    -- flight, failed, stored
  attempt    INTEGER NOT NULL,
  failed     INTEGER NOT NULL,
  fence      TEXT NOT NULL,    -- as in steps
  scope      TEXT NOT NULL,
  number     INTEGER NOT NULL,
  from_seq   INTEGER NOT NULL,
  to_seq     INTEGER NOT NULL,
  last_seq   INTEGER NOT NULL, -- the thread's last message when it was made
  body       TEXT NOT NULL,
  tokens     INTEGER NOT NULL, -- the context window it was made for
  model      TEXT NOT NULL,
  used       TEXT NOT NULL,    -- JSON: what making it cost
  created_at INTEGER NOT NULL,
  PRIMARY KEY (turn_id, step, cause)
) WITHOUT ROWID;
CREATE INDEX summaries_by_thread ON summaries (thread_id, last_seq);

-- Images that messages refer to as image:NAME, by a digest of their content.
CREATE TABLE images (
  name    TEXT PRIMARY KEY,
  kept_at INTEGER NOT NULL, -- when somebody gave it for a message to come; 0 = it came
  body    BLOB NOT NULL     -- last: a column behind it is read through all of it
);
CREATE INDEX images_unused ON images (kept_at) WHERE kept_at > 0;

-- Which threads refer to which images, also to such as are not there.
CREATE TABLE image_refs (
  thread_id TEXT NOT NULL REFERENCES threads(id) ON DELETE CASCADE,
  name      TEXT NOT NULL,
  PRIMARY KEY (thread_id, name)
) WITHOUT ROWID;
CREATE INDEX image_refs_by_name ON image_refs (name);

-- What agents want from people: a decision on calls (approval), or an answer to
-- ask_user (question).
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
