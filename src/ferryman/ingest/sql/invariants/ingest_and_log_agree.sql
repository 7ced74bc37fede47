-- The last word of the log about a plan, a slice, a task, a run or a batch is what its row says.
select row.kind, row.id, row.status, last.to_state as logged
from (
    select 'ingest_plan' as kind, id, status from ferryman.ingest_plan
    union all
    select 'ingest_slice', id, status from ferryman.ingest_slice
    union all
    select 'ingest_task', id, status from ferryman.ingest_task
    union all
    select 'ingest_run', id, status from ferryman.ingest_run
    union all
    select 'ingest_batch', id, status from ferryman.ingest_batch
) as row
cross join lateral (
    select event.to_state
    from ferryman.events as event
    where event.subject = row.id
      and event.kind = row.kind
      and event.to_state is not null
    order by event.id desc
    limit 1
) as last
where row.status <> last.to_state
