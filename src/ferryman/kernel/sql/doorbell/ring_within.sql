-- Tells other processes to look, when the caller's transaction commits and only then. Its durability is the caller's affair.
select pg_notify(channel, payload)
from unnest(:channels::text[], :payloads::text[]) as told (channel, payload)
