-- Webhooks with something due and room for it. Held, so that nobody else counts what is under way there; those that somebody
-- holds are passed over. In no order, so that none waits behind another for ever.
-- What is due and what is under way are asked for in the order of their indexes: a plan that was made while the table was empty
-- would else read all that a webhook was ever sent.
with clock as materialized (
    select ferryman.clock() as now
)
select webhook.id
from ferryman.webhooks as webhook, clock
where webhook.state = 'active'
  and webhook.key_id = :key_id
  and (
      select true
      from ferryman.webhook_deliveries as delivery
      where delivery.webhook_id = webhook.id
        and delivery.finished_at is null
        and delivery.next_at <= clock.now
        and delivery.ends_at > clock.now
      order by delivery.webhook_id, delivery.next_at
      limit 1
  )
  and :each > (
      select count(*)
      from (
          select from ferryman.webhook_deliveries as delivery
          where delivery.webhook_id = webhook.id
            and delivery.leased_until > clock.now
          order by delivery.webhook_id, delivery.leased_until
          limit :each
      ) as sent
  )
order by random()
limit :limit
for no key update of webhook skip locked
