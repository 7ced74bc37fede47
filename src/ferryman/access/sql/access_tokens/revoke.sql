-- active -> revoked
-- The sessions of those who signed in with it end with it.
with clock as materialized (
    select ferryman.clock() as now
),
moved as (
    update ferryman.access_tokens as token
    set revoked_at = clock.now
    from clock
    where token.id = :id
      and token.revoked_at is null
    returning token.id, token.tenant, token.name
),
ended as (
    delete from ferryman.access_sessions as session
    using moved
    where session.token_id = moved.id
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name, reason_message)
    select clock.now, moved.id, moved.tenant, 'access_token', 'active', 'revoked', moved.name, :reason::text
    from moved, clock
)
select id
from moved
