-- pending -> dead
with clock as materialized (
    select ferryman.clock() as now
),
ended as (
    update ferryman.webhook_deliveries as delivery
    set state = 'dead', finished_at = clock.now, leased_until = null, lease_owner = null,
        last_error = coalesce(delivery.last_error || ' (its time is over)', 'its time was over before the first try')
    from clock
    where delivery.id = any(:ids::uuid[])
      and delivery.state = 'pending'
      and delivery.ends_at <= clock.now
      and (delivery.leased_until is null or delivery.leased_until <= clock.now)
    returning delivery.id, delivery.tenant, delivery.attempts, delivery.last_error
),
told as (
    insert into ferryman.events (at, subject, attempt, tenant, kind, from_state, to_state, reason_code, reason_message)
    select clock.now, ended.id, ended.attempts, ended.tenant, 'webhook_delivery', 'pending', 'dead', 'WEBHOOK_UNDELIVERED',
           ended.last_error
    from ended, clock
)
select id
from ended
