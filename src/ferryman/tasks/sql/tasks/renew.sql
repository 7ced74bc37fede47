-- A holder that lives says so. What is not in the answer is not its any more: cancelled, reaped, or taken over.
-- What somebody else is writing at this moment is not waited for: the other leases must not run out meanwhile. Nor is it
-- refused; the holder asks again.
-- By primary key (see turn.sql); the state is asked for, and not the lease, so that no plan goes over all leases.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select given.id, given.epoch
    from unnest((select :ids::uuid[]), (select :epochs::bigint[])) as given (id, epoch)
    limit (select 1000000)
),
free as materialized (
    select task.id
    from word
    join ferryman.tasks as task on task.id = word.id
    where task.epoch = word.epoch
      and task.lease_owner = :owner
      and task.state = 'running'
    order by task.id
    for update of task skip locked
),
moved as (
    update ferryman.tasks as task
    set leased_until = least(clock.now + :lease::interval,
                             task.started_at + task.timeout_ms * interval '1 ms' + :margin::interval),
        lease_count = task.lease_count + 1
    from clock, free
    where task.id = free.id
    returning task.id
)
select task.id, task.id in (select moved.id from moved) as renewed
from word
join ferryman.tasks as task on task.id = word.id
where task.epoch = word.epoch
  and task.lease_owner = :owner
  and task.state = 'running'
