-- How far plans are: some of a tenant, or its newest.
with clock as materialized (
    select ferryman.clock() as now
),
chosen as materialized (
    select plan.id, plan.tenant, plan.source, plan.endpoint, plan.operation, plan.strategy, plan.status, plan.window_from,
           plan.window_to, plan.lower, plan.upper, plan.created_at
    from ferryman.ingest_plan as plan
    where plan.tenant = :tenant
      and (:ids::uuid[] is null or plan.id = any(:ids))
      and (:source::text is null or plan.source = :source)
      and (:before::uuid is null or plan.id < :before)
    order by plan.id desc
    limit :limit
)
select chosen.id, chosen.source, chosen.endpoint, chosen.operation, chosen.strategy, chosen.status, chosen.window_from,
       chosen.window_to, chosen.created_at, slices.count as slices, slices.done as slices_done,
       case when chosen.upper is null then slices.done::float8 / greatest(slices.count, 1)
            else coalesce(slices.covered, 0) / (chosen.upper - chosen.lower)::float8 end as share,
       slices.waiting, slices.undecided, tasks.states::text as tasks, coalesce(batches.requests, 0)::bigint as requests,
       coalesce(batches.items, 0)::bigint as items, coalesce(batches.errors, 0)::bigint as errors,
       coalesce(aside.count, 0)::bigint as quarantined,
       batches.recent / greatest(1, extract(epoch from least(interval '5 min', clock.now - batches.began)))::float8 as rate,
       extract(epoch from clock.now - batches.began)::float8 as elapsed,
       case when source.open_until > clock.now then source.open_until end as shut_until
from clock, chosen
left join ferryman.ingest_source as source on source.tenant = chosen.tenant and source.source = chosen.source
cross join lateral (
    select count(*) as count, count(*) filter (where slice.status = 'PENDING') as waiting,
           count(*) filter (where task.status = 'SUCCEEDED') as done,
           count(*) filter (where ferryman.is_undecided(task)) as undecided,
           (select sum(upper(part) - lower(part))
            from unnest(range_agg(int8range(slice.lower, slice.covered)) filter (where slice.covered is not null)) as part
           )::float8 as covered
    from ferryman.ingest_slice as slice
    left join ferryman.ingest_task as task on task.slice_id = slice.id
    where slice.plan_id = chosen.id
) as slices
cross join lateral (
    select coalesce(jsonb_object_agg(counted.status, counted.count), '{}') as states
    from (
        select task.status, count(*) as count
        from ferryman.ingest_task as task
        where task.plan_id = chosen.id
        group by task.status
    ) as counted
) as tasks
cross join lateral (
    select sum(batch.requests) as requests, sum(batch.record_count) as items,
           count(*) filter (where batch.status = 'FAILED') as errors, min(batch.created_at) as began,
           coalesce(sum(batch.record_count) filter (where batch.committed_at > clock.now - interval '5 min'), 0)::float8 as recent
    from ferryman.ingest_task as task
    join ferryman.ingest_batch as batch on batch.task_id = task.id
    where task.plan_id = chosen.id
) as batches
cross join lateral (
    select count(*) as count
    from ferryman.ingest_task as task
    join ferryman.ingest_batch as batch on batch.task_id = task.id
    join ferryman.ingest_quarantine as bad on bad.batch_id = batch.id
    where task.plan_id = chosen.id
) as aside
order by chosen.id desc
