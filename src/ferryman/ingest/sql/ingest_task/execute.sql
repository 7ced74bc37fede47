-- DISPATCHED -> EXECUTING, and its run PLANNED -> RUNNING
-- Answers where the slice goes on, and what of the budget is gone; also when it is said again, because the answer never came.
with clock as materialized (
    select ferryman.clock() as now
),
moved as (
    update ferryman.ingest_task as task
    set status = 'EXECUTING', updated_at = clock.now
    from clock
    where task.id = :id
      and task.status = 'DISPATCHED'
      and task.epoch = :epoch
      and task.lease_owner = :owner
    returning task.id, task.attempt, task.tenant, task.source
),
run as (
    update ferryman.ingest_run as run
    set status = 'RUNNING', started_at = clock.now, updated_at = clock.now
    from clock, moved
    where run.task_id = moved.id
      and run.attempt = moved.attempt
      and run.status = 'PLANNED'
    returning run.id, run.attempt, run.tenant
),
told as (
    insert into ferryman.events (at, subject, attempt, tenant, kind, from_state, to_state, subject_name)
    select clock.now, moved.id, moved.attempt, moved.tenant, 'ingest_task', 'DISPATCHED', 'EXECUTING', moved.source
    from moved, clock
    union all
    select clock.now, run.id, run.attempt, run.tenant, 'ingest_run', 'PLANNED', 'RUNNING', moved.source
    from run, moved, clock
)
select last.after_token, last.has_next,
       (select coalesce(sum(batch.requests), 0) from ferryman.ingest_batch as batch where batch.task_id = :id)::bigint as requests,
       (select coalesce(sum(batch.record_count), 0) from ferryman.ingest_batch as batch where batch.task_id = :id)::bigint as items,
       (select count(*) from ferryman.ingest_batch as batch where batch.task_id = :id and batch.status = 'SUCCEEDED') as pages,
       (select coalesce(extract(epoch from sum(old.finished_at - old.started_at)), 0)
        from ferryman.ingest_run as old
        where old.task_id = :id and old.finished_at is not null)::float8 as seconds,
       (select case when count(*) >= 3 then avg(other.items) end
        from (
            select sum(batch.record_count) as items
            from ferryman.ingest_task as peer
            join ferryman.ingest_batch as batch on batch.task_id = peer.id
            where peer.plan_id = :plan_id and peer.status = 'SUCCEEDED'
            group by peer.id
        ) as other)::float8 as usual
from (
    select run.id
    from run
    union all
    select begun.id
    from ferryman.ingest_task as begun
    where begun.id = :id
      and begun.status = 'EXECUTING'
      and begun.epoch = :epoch
      and begun.lease_owner = :owner
) as begun
left join lateral (
    select batch.after_token, batch.has_next
    from ferryman.ingest_batch as batch
    where batch.task_id = :id
      and batch.status = 'SUCCEEDED'
    order by batch.committed_at desc, batch.batch_no desc
    limit 1
) as last on true
