-- Tells other processes to look. A ring need not survive a crash, so its commit waits for no flush; said inside the
-- statement, because a pooler may refuse the setting on the connection.
select set_config('synchronous_commit', 'off', true), pg_notify(:channel, payload)
from unnest(:payloads::text[]) as payload
