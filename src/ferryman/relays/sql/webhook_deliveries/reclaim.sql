-- Hands back what is leased to this sender and not known to it.
update ferryman.webhook_deliveries as delivery
set leased_until = null, lease_owner = null, next_at = ferryman.clock(), attempts = delivery.attempts - 1
where delivery.leased_until is not null
  and delivery.lease_owner = :owner
  and delivery.state = 'pending'
  and not delivery.id = any(:held::uuid[])
returning delivery.id
