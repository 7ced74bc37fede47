-- What is owed still at its end, and not being sent now.
select delivery.id
from ferryman.webhook_deliveries as delivery
where delivery.finished_at is null
  and delivery.ends_at <= ferryman.clock()
  and (delivery.leased_until is null or delivery.leased_until <= ferryman.clock())
order by delivery.ends_at
limit :limit
for update skip locked
