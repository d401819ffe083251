-- When the call of a failed attempt is made again, and why it failed: JSON.
ALTER TABLE steps ADD COLUMN wait TEXT COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX steps_waiting ON steps (turn_id) WHERE state = 'failed' AND wait <> '';
