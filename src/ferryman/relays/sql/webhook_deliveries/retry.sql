-- (nothing) -> pending, for a dead one
-- Once for each: who is tried anew already is not in the answer.
with clock as materialized (
    select ferryman.clock() as now
),
dead as materialized (
    select delivery.id, delivery.webhook_id, delivery.event_id, delivery.event_token, delivery.tenant,
           delivery.kind, delivery.body
    from ferryman.webhook_deliveries as delivery
    join ferryman.webhooks as webhook on webhook.id = delivery.webhook_id
    where delivery.id = :id
      and delivery.tenant = :tenant
      and delivery.state = 'dead'
      and webhook.state <> 'disabled'
    for key share of webhook
),
born as (
    insert into ferryman.webhook_deliveries (
        id, webhook_id, event_id, event_token, tenant, kind, body, state, created_at, next_at, ends_at, retry_of
    )
    select :new_id, dead.webhook_id, dead.event_id, dead.event_token, dead.tenant, dead.kind, dead.body, 'pending',
           clock.now, clock.now, clock.now + :ends_after::interval, dead.id
    from dead, clock
    on conflict do nothing
    returning id, tenant, created_at
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, to_state)
    select created_at, id, tenant, 'webhook_delivery', 'pending'
    from born
)
select id
from born
