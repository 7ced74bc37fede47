-- QUEUED -> DISPATCHED, and a run PLANNED
-- Round robin over (source, endpoint, operation): who has fewer slots comes first; of equals the lower rank, in which waiting
-- makes up for priority. The sources have been held by the statement before (ingest_source/hold.sql).
-- As with a renewal, no lease goes past the end of its budget by more than the margin.
with clock as materialized (
    select ferryman.clock() as now
),
open as materialized (
    select given.tenant, given.source
    from unnest(:tenants::text[], :sources::text[]) as given (tenant, source)
),
held as materialized (
    select task.tenant, task.source, task.endpoint, task.operation, count(*) as slots
    from ferryman.ingest_task as task
    join open using (tenant, source)
    where task.leased_until is not null
    group by task.tenant, task.source, task.endpoint, task.operation
),
line as materialized (
    select task.id, task.rank,
           coalesce(held.slots, 0) + row_number() over (
               partition by task.tenant, task.source, task.endpoint, task.operation order by task.rank, task.id) as round
    from clock, ferryman.ingest_task as task
    join open using (tenant, source)
    left join held using (tenant, source, endpoint, operation)
    where task.rank is not null
      and task.scheduled_at <= clock.now
      and task.ends_at > clock.now
      and (task.source, task.endpoint) in (
          select known.source, known.endpoint
          from unnest(:known_sources::text[], :known_endpoints::text[]) as known (source, endpoint))
),
taken as materialized (
    select task.id
    from line
    join ferryman.ingest_task as task on task.id = line.id
    where line.round <= :partition
    order by line.round, line.rank, line.id
    limit :room
    for update of task skip locked
),
moved as (
    update ferryman.ingest_task as task
    set status = 'DISPATCHED', rank = null, epoch = task.epoch + 1, attempt = task.attempt + 1, lease_owner = :owner,
        leased_until = clock.now + least(:lease::interval, make_interval(secs => task.max_seconds) + :margin::interval),
        lease_count = task.lease_count + 1, claimed_at = clock.now, updated_at = clock.now
    from clock, taken
    where task.id = taken.id
      and task.status = 'QUEUED'
    returning task.id, task.epoch, task.attempt, task.tenant, task.source, task.endpoint, task.operation, task.slice_id,
              task.plan_id, task.max_items, task.max_requests, task.max_seconds, task.used, task.max_attempts,
              task.slice_signature_hash, task.expr_hash, task.params::text as params, task.leased_until
),
run as (
    insert into ferryman.ingest_run (
        id, task_id, lease_owner, epoch, leased_until, planned_at, updated_at, attempt, tenant, status)
    select gen_random_uuid(), moved.id, :owner, moved.epoch, moved.leased_until, clock.now, clock.now, moved.attempt,
           moved.tenant, 'PLANNED'
    from moved, clock
    returning id, task_id, tenant, attempt
),
told as (
    insert into ferryman.events (at, subject, attempt, tenant, kind, from_state, to_state, subject_name)
    select clock.now, moved.id, moved.attempt, moved.tenant, 'ingest_task', 'QUEUED', 'DISPATCHED', moved.source
    from moved, clock
    union all
    select clock.now, run.id, run.attempt, run.tenant, 'ingest_run', null, 'PLANNED', moved.source
    from run
    join moved on moved.id = run.task_id, clock
)
select moved.id, moved.epoch, moved.attempt, moved.tenant, moved.source, moved.endpoint, moved.operation, moved.slice_id,
       moved.plan_id, moved.max_items, moved.max_requests, moved.max_seconds, moved.used, moved.max_attempts,
       moved.slice_signature_hash, moved.expr_hash, moved.params, run.id as run_id,
       slice.spec::text as spec, slice.lower, slice.upper, slice.covered, slice.estimate, slice.depth
from moved
join run on run.task_id = moved.id
join ferryman.ingest_slice as slice on slice.id = moved.slice_id
