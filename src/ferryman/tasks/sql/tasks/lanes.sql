-- Which (queue, tenant) pairs have something to claim: one index probe for each, however many tasks wait in it.
with recursive lane as (
    select queue, (select min(task.tenant) from ferryman.tasks as task
                   where task.queue = served.queue and task.rank is not null) as tenant
    from unnest(:queues::text[]) as served (queue)
    union all
    select lane.queue, (select min(task.tenant) from ferryman.tasks as task
                        where task.queue = lane.queue and task.rank is not null and task.tenant > lane.tenant)
    from lane
    where lane.tenant is not null
)
select queue, tenant
from lane
where tenant is not null
limit :limit
