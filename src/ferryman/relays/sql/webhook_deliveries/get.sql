-- One delivery, or the one that tries it anew.
select delivery.id, delivery.webhook_id, delivery.tenant, delivery.event_id, delivery.event_token, delivery.kind,
       delivery.state, delivery.attempts, delivery.next_at, delivery.ends_at, delivery.leased_until,
       delivery.created_at, delivery.finished_at, delivery.last_status, delivery.last_error, delivery.retry_of
from ferryman.webhook_deliveries as delivery
where delivery.tenant = :tenant
  and (delivery.id = :id or delivery.retry_of = :retry_of)
