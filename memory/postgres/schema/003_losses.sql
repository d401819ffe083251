-- The worker process that has an attempt in flight; '' = none, or it is known
-- to be gone and its turns were blamed for it.
ALTER TABLE steps ADD COLUMN worker TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE tool_calls ADD COLUMN worker TEXT COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX steps_in_flight ON steps (worker) WHERE worker <> '';
CREATE INDEX tool_calls_in_flight ON tool_calls (worker) WHERE worker <> '';

-- How often a turn's worker died, and its share of the blame.
ALTER TABLE turns ADD COLUMN losses INTEGER NOT NULL DEFAULT 0;
ALTER TABLE turns ADD COLUMN blame DOUBLE PRECISION NOT NULL DEFAULT 0;
ALTER TABLE turns ADD COLUMN lost_at BIGINT NOT NULL DEFAULT 0;

-- An end that is told with the next message only: it opens no turn.
ALTER TABLE turns ADD COLUMN quiet INTEGER NOT NULL DEFAULT 0;
ALTER TABLE inbox ADD COLUMN quiet INTEGER NOT NULL DEFAULT 0;
