-- A holder that lives says so. What is not in the answer is not its any more: cancelled, reaped, or taken over.
with clock as materialized (
    select ferryman.clock() as now
)
update ferryman.tasks as task
set leased_until = least(clock.now + :lease::interval,
                         task.started_at + task.timeout_ms * interval '1 ms' + :margin::interval),
    lease_count = task.lease_count + 1
from clock, unnest(:ids::uuid[], :epochs::bigint[]) as word (id, epoch)
where task.id = word.id
  and task.epoch = word.epoch
  and task.lease_owner = :owner
  and task.leased_until is not null
returning task.id
