-- Which (queue, tenant) pairs have something to claim: one index probe for each, however many tasks wait in it; those that
-- wait with a key apart. Beginning behind the tenant where the last look had to end. With them, what is agreed for the
-- queues, and which handlers are paused.
with recursive served as materialized (
    select given.queue, given.after
    from unnest(:queues::text[], :afters::text[]) as given (queue, after)
),
lane as (
    select served.queue, (select min(task.tenant) from ferryman.tasks as task
                          where task.queue = served.queue and task.rank is not null and task.limit_key is null
                            and task.tenant > served.after) as tenant
    from served
    union all
    select lane.queue, (select min(task.tenant) from ferryman.tasks as task
                        where task.queue = lane.queue and task.rank is not null and task.limit_key is null
                          and task.tenant > lane.tenant)
    from lane
    where lane.tenant is not null
),
keyed as (
    select served.queue, (select min(task.tenant) from ferryman.tasks as task
                          where task.queue = served.queue and task.rank is not null and task.limit_key is not null
                            and task.tenant > served.after) as tenant
    from served
    union all
    select keyed.queue, (select min(task.tenant) from ferryman.tasks as task
                         where task.queue = keyed.queue and task.rank is not null and task.limit_key is not null
                           and task.tenant > keyed.tenant)
    from keyed
    where keyed.tenant is not null
)
(
    select 'lane' as kind, lane.queue, lane.tenant, null::integer as weight, null::boolean as open, null::boolean as paused
    from lane
    where lane.tenant is not null
    limit :limit
)
union all
(
    select 'keyed', keyed.queue, keyed.tenant, null, null, null
    from keyed
    where keyed.tenant is not null
    limit :limit
)
union all
select 'queue', queue.name, queue.tenant, queue.weight, queue.open, queue.paused_at is not null
from ferryman.queues as queue
where queue.name = any(:queues::text[])
union all
select 'name', paused.name, null, null, null, null
from ferryman.paused_names as paused
