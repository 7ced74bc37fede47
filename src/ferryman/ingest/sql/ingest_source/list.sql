-- The sources of a tenant: the circuit breaker of each, what is in its line and in hand, and its newest plan.
with clock as materialized (
    select ferryman.clock() as now
)
select source.source, source.failures, source.opened,
       case when source.open_until > clock.now then source.open_until end as shut_until, line.count as queued,
       held.count as running, newest.id as plan_id, newest.created_at as planned_at
from clock, ferryman.ingest_source as source
cross join lateral (
    select count(*) as count
    from ferryman.ingest_task as task
    where task.tenant = source.tenant
      and task.source = source.source
      and task.rank is not null
) as line
cross join lateral (
    select count(*) as count
    from ferryman.ingest_task as task
    where task.tenant = source.tenant
      and task.source = source.source
      and task.leased_until is not null
) as held
left join lateral (
    select plan.id, plan.created_at
    from ferryman.ingest_plan as plan
    where plan.tenant = source.tenant
      and plan.source = source.source
    order by plan.id desc
    limit 1
) as newest on true
where source.tenant = :tenant
order by source.source
limit :limit
