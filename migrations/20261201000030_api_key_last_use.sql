-- When an API key was last used, so that its owner can tell the ones that nobody needs. Each instance writes it
-- about once a minute, for all keys in one statement and beside the requests; it is no record of calls.
-- A column without a default changes no row, and a binary that does not know it goes on as before.

alter table api_keys add column last_used_at timestamptz;
