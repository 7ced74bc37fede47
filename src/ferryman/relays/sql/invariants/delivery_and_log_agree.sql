select delivery.id, delivery.state, last.to_state as logged_state
from ferryman.webhook_deliveries as delivery
cross join lateral (
    select event.to_state
    from ferryman.events as event
    where event.subject = delivery.id
      and event.kind = 'webhook_delivery'
      and event.to_state is not null
    order by event.id desc
    limit 1
) as last
where delivery.state <> last.to_state
