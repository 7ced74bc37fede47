-- A holder that lives says so, for its task and its run; not past the end of its budget. What is not in the answer is not its
-- any more. What somebody else is writing at this moment is not waited for; the holder asks again.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select given.id, given.epoch
    from unnest(:ids::uuid[], :epochs::bigint[]) as given (id, epoch)
),
free as materialized (
    select task.id
    from word
    join ferryman.ingest_task as task on task.id = word.id
    where task.epoch = word.epoch
      and task.lease_owner = :owner
      and task.status in ('DISPATCHED', 'EXECUTING')
    order by task.id
    for update of task skip locked
),
moved as (
    update ferryman.ingest_task as task
    set leased_until = least(clock.now + :lease::interval,
                             task.claimed_at + make_interval(secs => task.max_seconds) + :margin::interval),
        lease_count = task.lease_count + 1
    from clock, free
    where task.id = free.id
    returning task.id, task.attempt, task.leased_until
),
run as (
    update ferryman.ingest_run as run
    set leased_until = moved.leased_until
    from moved
    where run.task_id = moved.id
      and run.attempt = moved.attempt
      and run.status in ('PLANNED', 'RUNNING')
)
select task.id, moved.id is not null as renewed
from word
join ferryman.ingest_task as task on task.id = word.id
left join moved on moved.id = word.id
where task.epoch = word.epoch
  and task.lease_owner = :owner
  and task.status in ('DISPATCHED', 'EXECUTING')
