-- active -> paused
with clock as materialized (
    select ferryman.clock() as now
),
moved as (
    update ferryman.webhooks as webhook
    set state = 'paused', updated_at = clock.now
    from clock
    where webhook.id = :id
      and webhook.tenant = :tenant
      and webhook.state = 'active'
    returning webhook.id, webhook.tenant, webhook.name
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name, reason_message)
    select clock.now, moved.id, moved.tenant, 'webhook', 'active', 'paused', moved.name, :reason::text
    from moved, clock
)
select id
from moved
