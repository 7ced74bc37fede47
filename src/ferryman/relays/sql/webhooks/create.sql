-- (nothing) -> active
-- One whose name exists already is not born and not in the answer: the caller then reads what is there.
with clock as materialized (
    select ferryman.clock() as now
),
born as (
    insert into ferryman.webhooks (id, tenant, name, url, kinds, state, after_id, key_id, created_at, updated_at)
    select :id, :tenant, :name, :url, :kinds::text[], 'active', :after_id, :key_id, clock.now, clock.now
    from clock
    on conflict do nothing
    returning id, tenant, name, created_at
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, to_state, subject_name)
    select created_at, id, tenant, 'webhook', 'active', name
    from born
)
select id
from born
