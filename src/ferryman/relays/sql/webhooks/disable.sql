-- active | paused -> disabled
-- What it was owed is dead with it; what is being sent now ends by its answer, or at its ends_at.
with clock as materialized (
    select ferryman.clock() as now
),
held as materialized (
    select webhook.id, webhook.state
    from ferryman.webhooks as webhook
    where webhook.id = :id
      and webhook.tenant = :tenant
      and webhook.state in ('active', 'paused')
    for update
),
moved as (
    update ferryman.webhooks as webhook
    set state = 'disabled', disabled_at = clock.now, updated_at = clock.now
    from clock, held
    where webhook.id = held.id
    returning webhook.id, webhook.tenant, webhook.name, held.state as from_state
),
dropped as (
    update ferryman.webhook_deliveries as delivery
    set state = 'dead', finished_at = clock.now, leased_until = null, lease_owner = null, last_error = 'its webhook was removed'
    from clock, moved
    where delivery.webhook_id = moved.id
      and delivery.state = 'pending'
      and delivery.finished_at is null
      and (delivery.leased_until is null or delivery.leased_until <= clock.now)
    returning delivery.id, delivery.tenant, delivery.attempts
),
told as (
    insert into ferryman.events (
        at, subject, attempt, tenant, kind, from_state, to_state, subject_name, reason_code, reason_message
    )
    select clock.now, moved.id, null, moved.tenant, 'webhook', moved.from_state, 'disabled', moved.name, null, :reason::text
    from moved, clock
    union all
    select clock.now, dropped.id, dropped.attempts, dropped.tenant, 'webhook_delivery', 'pending', 'dead', null,
           'WEBHOOK_UNDELIVERED', 'its webhook was removed'
    from dropped, clock
)
select id
from moved
