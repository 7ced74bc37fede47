-- PENDING -> READY, and a task QUEUED
-- As many as the source has room for in its line (I3). A slice with a task already is not derived twice: its key says so.
with clock as materialized (
    select ferryman.clock() as now
),
chosen as materialized (
    select slice.id
    from ferryman.ingest_slice as slice
    where slice.tenant = :tenant
      and slice.source = :source
      and slice.status = 'PENDING'
    order by slice.priority, slice.created_at, slice.slice_no
    limit (
        select greatest(0, :most - count(*))
        from ferryman.ingest_task as task
        where task.tenant = :tenant
          and task.source = :source
          and task.rank is not null)
    for update of slice skip locked
),
moved as (
    update ferryman.ingest_slice as slice
    set status = 'READY', updated_at = clock.now
    from clock, chosen
    where slice.id = chosen.id
      and slice.status = 'PENDING'
    returning slice.id, slice.plan_id, slice.tenant, slice.source, slice.priority, slice.ends_at, slice.slice_signature_hash,
              slice.params
),
made as (
    insert into ferryman.ingest_task (
        id, plan_id, slice_id, scheduled_at, rank, ends_at, created_at, updated_at, max_items, max_requests, max_seconds,
        max_attempts, max_claims, priority, tenant, source, endpoint, operation, status, idempotent_key, slice_signature_hash,
        expr_hash, params)
    select moved.id, moved.plan_id, moved.id, clock.now, clock.now + moved.priority * interval '10 min', moved.ends_at,
           clock.now, clock.now, (plan.budget ->> 'items')::bigint, (plan.budget ->> 'requests')::bigint,
           (plan.budget ->> 'seconds')::integer, (plan.config ->> 'max_attempts')::integer,
           (plan.config ->> 'max_claims')::integer, moved.priority, moved.tenant, moved.source, plan.endpoint, plan.operation,
           'QUEUED', encode(sha256(convert_to(concat_ws(E'\n', moved.slice_signature_hash, plan.expr_hash, plan.operation,
               instance.job, to_char(instance.fire_time at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), plan.plan_key,
               moved.params::text), 'UTF8')), 'hex'),
           moved.slice_signature_hash, plan.expr_hash, moved.params
    from clock, moved
    join ferryman.ingest_plan as plan on plan.id = moved.plan_id
    join ferryman.ingest_schedule_instance as instance on instance.id = plan.schedule_instance_id
    returning id, tenant, source
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name)
    select clock.now, moved.id, moved.tenant, 'ingest_slice', 'PENDING', 'READY', moved.source
    from moved, clock
    union all
    select clock.now, made.id, made.tenant, 'ingest_task', null, 'QUEUED', made.source
    from made, clock
)
select id
from made
