-- A batch may be kept for longer than the log. What the log still knows of it at all, it knows to its end: days are dropped whole, the
-- oldest first.
select batch.tenant, batch.id, batch.status, told.count
from ferryman.pmo_batches as batch
cross join lateral (
    select count(*) filter (where event.from_state = 'running') as count, count(*) as known
    from ferryman.events as event
    where event.subject = batch.id
      and event.kind = 'batch'
) as told
where told.known > 0
  and told.count <> case when batch.finished_at is null then 0 else 1 end
