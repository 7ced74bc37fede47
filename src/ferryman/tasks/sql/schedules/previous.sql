-- Which of these schedules have a live task that somebody else holds now; the live tasks of all others are held until the end
-- of the transaction, so that cancelling them waits for nobody. What ends between the look and the lock is in nobody's way.
with live as materialized (
    select task.id, task.schedule
    from ferryman.tasks as task
    where task.schedule = any(:ids::uuid[])
      and task.finished_at is null
),
held as materialized (
    select task.id
    from ferryman.tasks as task
    where task.id = any(array(select live.id from live))
    for update of task skip locked
)
select distinct live.schedule
from live
where not exists (select from held where held.id = live.id)
