-- Webhooks with something due and room for it. Held, so that nobody else counts what is under way there; those that somebody
-- holds are passed over. In no order, so that none waits behind another for ever.
select webhook.id
from ferryman.webhooks as webhook
where webhook.state = 'active'
  and webhook.key_id = :key_id
  and exists (
      select from ferryman.webhook_deliveries as delivery
      where delivery.webhook_id = webhook.id
        and delivery.finished_at is null
        and delivery.next_at <= ferryman.clock()
        and delivery.ends_at > ferryman.clock()
  )
  and :each > (
      select count(*)
      from ferryman.webhook_deliveries as delivery
      where delivery.webhook_id = webhook.id
        and delivery.leased_until > ferryman.clock()
  )
order by random()
limit :limit
for no key update skip locked
