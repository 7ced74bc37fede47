-- Somebody signs in. Some sessions that ended long ago leave on this occasion: nobody else comes by here.
with clock as materialized (
    select ferryman.clock() as now
),
past as materialized (
    select session.hash
    from ferryman.access_sessions as session, clock
    where session.ends_at < clock.now - interval '1 day'
    order by session.ends_at
    limit 100
    for update of session skip locked
),
left_behind as (
    delete from ferryman.access_sessions as session
    using past
    where session.hash = past.hash
),
born as (
    insert into ferryman.access_sessions (hash, token_id, created_at, ends_at)
    select :hash::bytea, token.id, clock.now, least(clock.now + :lasts::interval, token.expires_at)
    from clock, ferryman.access_tokens as token
    where token.id = :token_id
      and token.revoked_at is null
    returning ends_at
)
select ends_at
from born
