-- Tells other processes to look, when the caller's transaction commits and only then. Its durability is the caller's affair.
-- A ring that found the queue of notifications full would end that transaction at its commit: none is made where it fills up.
select pg_notify(channel, payload)
from unnest(:channels::text[], :payloads::text[]) as told (channel, payload)
where (select pg_notification_queue_usage()) < 0.5
