-- The slices of a plan in their order, each with what became of its task.
select slice.id, slice.slice_no, slice.status, slice.lower, slice.upper, slice.covered, slice.spec::text as spec, slice.depth,
       slice.reason, coalesce(cardinality(slice.resliced_by), 0) as resliced, task.status as task_status, task.attempt,
       task.max_attempts, task.error_code, task.error_reason, task.decision, task.scheduled_at, task.leased_until,
       task.finished_at, done.requests, done.items, done.errors, aside.count as quarantined
from ferryman.ingest_slice as slice
left join ferryman.ingest_task as task on task.slice_id = slice.id
cross join lateral (
    select coalesce(sum(batch.requests), 0)::bigint as requests, coalesce(sum(batch.record_count), 0)::bigint as items,
           count(*) filter (where batch.status = 'FAILED') as errors
    from ferryman.ingest_batch as batch
    where batch.task_id = task.id
) as done
cross join lateral (
    select count(*) as count
    from ferryman.ingest_batch as batch
    join ferryman.ingest_quarantine as bad on bad.batch_id = batch.id
    where batch.task_id = task.id
) as aside
where slice.plan_id = :plan_id
  and slice.tenant = :tenant
  and slice.slice_no > :after
order by slice.slice_no
limit :limit
