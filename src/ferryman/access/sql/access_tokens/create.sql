-- (nothing) -> active
-- One whose name exists already is not born and not in the answer.
with clock as materialized (
    select ferryman.clock() as now
),
born as (
    insert into ferryman.access_tokens (id, tenant, name, scopes, hash, created_at, expires_at)
    select :id, :tenant, :name, :scopes::text[], :hash::bytea, clock.now, clock.now + :lasts::interval
    from clock
    on conflict do nothing
    returning id, tenant, name, scopes, created_at, expires_at, revoked_at, last_used_at
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, to_state, subject_name)
    select created_at, id, tenant, 'access_token', 'active', name
    from born
)
select id, tenant, name, scopes, created_at, expires_at, revoked_at, last_used_at
from born
