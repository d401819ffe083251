-- JSON: what a step's attempts have used that gave no reply, what the one under way
-- is charged if nobody reports on it, and how the latest ones failed.
ALTER TABLE steps ADD COLUMN account TEXT COLLATE "C" NOT NULL DEFAULT '';
