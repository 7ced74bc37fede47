-- Claims what is due of webhooks that are held, each up to its room, and one of each before a second of any. No move: what is
-- being sent is pending. The end of the lease is the time at which it is due again.
with clock as materialized (
    select ferryman.clock() as now
),
due as materialized (
    select next.id
    from clock, unnest(:webhooks::uuid[]) as held (id)
    cross join lateral (
        select delivery.id, row_number() over (order by delivery.next_at, delivery.id) as number
        from ferryman.webhook_deliveries as delivery
        where delivery.webhook_id = held.id
          and delivery.finished_at is null
          and delivery.next_at <= clock.now
          and delivery.ends_at > clock.now
        order by delivery.next_at, delivery.id
        limit greatest(0, :each - (
            select count(*)
            from (
                select from ferryman.webhook_deliveries as sent
                where sent.webhook_id = held.id
                  and sent.leased_until > clock.now
                order by sent.webhook_id, sent.leased_until
                limit :each
            ) as under_way
        ))
    ) as next
    order by next.number
    limit :limit
)
update ferryman.webhook_deliveries as delivery
set epoch = delivery.epoch + 1, attempts = delivery.attempts + 1, lease_owner = :owner, leased_until = clock.now + :lease::interval,
    next_at = clock.now + :lease::interval
from clock, due, ferryman.webhooks as webhook
where delivery.id = due.id
  and delivery.state = 'pending'
  and webhook.id = delivery.webhook_id
returning delivery.id, delivery.epoch, delivery.webhook_id, delivery.event_id, delivery.event_token, delivery.attempts,
          delivery.body, webhook.url, webhook.secret_version,
          coalesce(webhook.rotated_at > clock.now - interval '1 day', false) as both_secrets
