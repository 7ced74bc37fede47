-- What ended longer ago than such are kept. The shorter time stands alone first: it is the one that the index knows.
select delivery.id
from ferryman.webhook_deliveries as delivery
where delivery.finished_at < ferryman.clock() - least(:kept::interval, :dead_kept::interval)
  and delivery.finished_at < ferryman.clock() - case delivery.state when 'dead' then :dead_kept::interval else :kept::interval end
order by delivery.finished_at
limit :limit
for update skip locked
