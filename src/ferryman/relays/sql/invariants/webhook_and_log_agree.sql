select webhook.id, webhook.state, last.to_state as logged_state
from ferryman.webhooks as webhook
cross join lateral (
    select event.to_state
    from ferryman.events as event
    where event.subject = webhook.id
      and event.kind = 'webhook'
      and event.to_state is not null
    order by event.id desc
    limit 1
) as last
where webhook.state <> last.to_state
