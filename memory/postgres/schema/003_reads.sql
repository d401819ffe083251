-- expands
-- What the sweep asks for. Programs of version 2 write nothing else than before.
CREATE INDEX asks_settled ON asks (settled_at) WHERE outcome <> '';
CREATE INDEX turns_cancelled ON turns (cancel_at) WHERE state = 'open' AND cancel_at > 0;
-- The index of output_parts serves those who ask by a call's id only if both compare alike.
ALTER TABLE output_parts ALTER COLUMN call_id TYPE TEXT COLLATE "C", ALTER COLUMN body TYPE TEXT COLLATE "C";
