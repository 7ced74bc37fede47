select batch.tenant, batch.id, batch.status, told.count
from ferryman.pmo_batches as batch
cross join lateral (
    select count(*) as count
    from ferryman.events as event
    where event.subject = batch.id
      and event.kind = 'batch'
      and event.from_state = 'running'
) as told
where told.count <> case when batch.finished_at is null then 0 else 1 end
