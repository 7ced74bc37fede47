-- Says, for as long as this connection lives, that somebody listens to these channels. It waits for who found nobody there and
-- has not committed yet: what is looked for after this holds what they wrote.
select pg_advisory_lock_shared(hashtextextended(channel, 0))
from unnest(:channels::text[]) as channel
