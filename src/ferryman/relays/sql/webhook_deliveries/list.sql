-- The newest of a webhook first, a page at a time.
select delivery.id, delivery.webhook_id, delivery.tenant, delivery.event_id, delivery.event_token, delivery.kind,
       delivery.state, delivery.attempts, delivery.next_at, delivery.ends_at, delivery.leased_until,
       delivery.created_at, delivery.finished_at, delivery.last_status, delivery.last_error, delivery.retry_of
from ferryman.webhook_deliveries as delivery
where delivery.webhook_id = :webhook_id
  and delivery.tenant = :tenant
  and (:state::text is null or delivery.state = :state::text)
  and (:before::uuid is null or delivery.id < :before::uuid)
order by delivery.id desc
limit :limit
