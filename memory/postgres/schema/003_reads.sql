-- expands
-- What the sweep asks for. Programs of version 2 write nothing else than before.
CREATE INDEX asks_settled ON asks (settled_at) WHERE outcome <> '';
CREATE INDEX turns_cancelled ON turns (cancel_at) WHERE state = 'open' AND cancel_at > 0;
