-- DISPATCHED | EXECUTING -> SUCCEEDED | FAILED | PARTIAL | CANCELLED | QUEUED
-- Its run ends with it, and the batches that are open; in this order of locks. A batch that was born counts as one request, unless
-- its run says how many went out. The watchdog's way asks that the lease, or the time of a batch, has passed.
with clock as materialized (
    select ferryman.clock() as now
),
mine as materialized (
    select task.id, task.attempt, task.slice_id, task.source, task.status as was
    from ferryman.ingest_task as task, clock
    where task.id = :id
      and task.epoch = :epoch
      and task.lease_owner = :owner
      and task.status in ('DISPATCHED', 'EXECUTING')
      and (not :lapsed::boolean or task.leased_until <= clock.now or exists (
          select from ferryman.ingest_batch as batch
          where batch.task_id = task.id
            and batch.ends_by <= clock.now))
    for update of task
),
moved as (
    update ferryman.ingest_task as task
    set status = :status,
        lease_owner = null, leased_until = null, updated_at = clock.now,
        scheduled_at = case when :status = 'QUEUED' then clock.now + make_interval(secs => :delay::float8) else task.scheduled_at end,
        rank = case when :status = 'QUEUED'
                    then clock.now + make_interval(secs => :delay::float8) + task.priority * interval '10 min' end,
        finished_at = case when :status <> 'QUEUED' then clock.now end,
        used = task.used + :used, forgiven = task.forgiven + :forgiven,
        error_code = :code::text, error_reason = :reason::text
    from clock, mine
    where task.id = mine.id
    returning task.id, task.tenant, task.source, task.plan_id, task.slice_id, task.attempt, task.status
),
run as (
    update ferryman.ingest_run as run
    set status = :run_status, leased_until = null, finished_at = clock.now, updated_at = clock.now,
        stats = run.stats || :stats::jsonb, error_code = :code::text, error_reason = :reason::text
    from clock, mine
    where run.task_id = mine.id
      and run.attempt = mine.attempt
      and run.status in ('PLANNED', 'RUNNING')
    returning run.id, run.attempt, run.tenant, run.status, run.started_at
),
batches as (
    update ferryman.ingest_batch as batch
    set status = :batch_status, ends_by = null, updated_at = clock.now, error_reason = :reason::text,
        requests = coalesce(:requests::integer, batch.requests)
    from clock, run
    where batch.run_id = run.id
      and batch.status = 'RUNNING'
    returning batch.id, batch.tenant, batch.status
),
slice as (
    update ferryman.ingest_slice as slice
    set covered = greatest(slice.covered, :covered::bigint), updated_at = clock.now
    from clock, mine
    where slice.id = mine.slice_id
      and :covered::bigint is not null
),
told as (
    insert into ferryman.events (at, subject, attempt, tenant, kind, from_state, to_state, subject_name, reason_code, reason_message)
    select clock.now, moved.id, moved.attempt, moved.tenant, 'ingest_task', mine.was, moved.status, moved.source, :code, :reason
    from moved, mine, clock
    union all
    select clock.now, run.id, run.attempt, run.tenant, 'ingest_run',
           case when run.started_at is null then 'PLANNED' else 'RUNNING' end, run.status, mine.source, :code, :reason
    from run, mine, clock
    union all
    select clock.now, batches.id, null, batches.tenant, 'ingest_batch', 'RUNNING', batches.status, mine.source, :code, :reason
    from batches, mine, clock
)
select moved.id, moved.tenant, moved.source, moved.plan_id, moved.slice_id, moved.status, run.id as run_id, own.cursor_id
from moved
join ferryman.ingest_slice as own on own.id = moved.slice_id
left join run on true
