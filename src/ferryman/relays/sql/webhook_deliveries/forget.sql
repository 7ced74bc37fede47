-- (anything that has ended) -> nothing
delete from ferryman.webhook_deliveries as delivery
where delivery.id = any(:ids::uuid[])
  and delivery.finished_at is not null
