-- How many tasks of a tenant wait in a queue's line or run, up to a bound; in a statement of its own, after the lock.
-- In the order of the index that is made for it: without one the planner may find it cheaper to read the whole table.
select given.queue, given.tenant, waiting.count + keyed.count + running.count as count
from unnest(:queues::text[], :tenants::text[], :bounds::integer[]) as given (queue, tenant, bound)
cross join lateral (
    select count(*) as count
    from (select from ferryman.tasks as task
          where task.queue = given.queue and task.tenant = given.tenant and task.rank is not null and task.limit_key is null
          order by task.rank
          limit given.bound) as found
) as waiting
cross join lateral (
    select count(*) as count
    from (select from ferryman.tasks as task
          where task.queue = given.queue and task.tenant = given.tenant and task.rank is not null and task.limit_key is not null
          order by task.limit_key
          limit given.bound) as found
) as keyed
cross join lateral (
    select count(*) as count
    from (select from ferryman.tasks as task
          where task.queue = given.queue and task.tenant = given.tenant and task.slot and task.leased_until is not null
          order by task.limit_key
          limit given.bound) as found
) as running
