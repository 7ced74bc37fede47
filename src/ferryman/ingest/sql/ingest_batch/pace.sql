-- How fast a plan's source was asked and what the gate allowed: its batches in equal parts of time, from the first to the last.
with made as materialized (
    select batch.created_at, batch.requests, batch.record_count, (batch.stats ->> '429Count')::bigint as throttled,
           (batch.stats #>> '{gate,rate}')::float8 as rate
    from ferryman.ingest_task as task
    join ferryman.ingest_batch as batch on batch.task_id = task.id
    where task.plan_id = :plan_id
      and task.tenant = :tenant
),
span as materialized (
    select min(made.created_at) as first, greatest(max(made.created_at), min(made.created_at) + interval '1 second') as last
    from made
)
select parted.part, span.first + (parted.part - 1) * (span.last - span.first) / :parts::integer as at,
       extract(epoch from span.last - span.first)::float8 / :parts::integer as seconds, sum(parted.requests)::bigint as requests,
       coalesce(sum(parted.throttled), 0)::bigint as throttled, sum(parted.record_count)::bigint as items,
       avg(parted.rate)::float8 as rate
from (
    select made.*, least(:parts::integer, width_bucket(
               extract(epoch from made.created_at)::float8, extract(epoch from span.first)::float8,
               extract(epoch from span.last)::float8, :parts::integer)) as part
    from made, span
) as parted, span
group by parted.part, span.first, span.last
order by parted.part
