-- A holder that lives says so. What is not in the answer is not its any more: cancelled, reaped, or taken over.
-- By primary key (see turn.sql); the state is asked for, and not the lease, so that no plan goes over all leases.
with clock as materialized (
    select ferryman.clock() as now
)
update ferryman.tasks as task
set leased_until = least(clock.now + :lease::interval,
                         task.started_at + task.timeout_ms * interval '1 ms' + :margin::interval),
    lease_count = task.lease_count + 1
from clock, (
    select given.id, given.epoch
    from unnest((select :ids::uuid[]), (select :epochs::bigint[])) as given (id, epoch)
    limit (select 1000000)
) as word
where task.id = word.id
  and task.epoch = word.epoch
  and task.lease_owner = :owner
  and task.state = 'running'
returning task.id
