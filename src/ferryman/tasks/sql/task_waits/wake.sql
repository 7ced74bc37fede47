-- Parked tasks go on; moving to the same state is no move.
with held as materialized (
    select task.id
    from ferryman.tasks as task
    where task.id = any(:ids::uuid[])
      and task.state = 'ready'
      and task.wake_at is not null
    order by task.id
    for update of task skip locked
)
update ferryman.tasks as task
set rank = ferryman.clock() + task.priority * interval '60 s', due_at = ferryman.clock(), wake_at = null,
    updated_at = ferryman.clock()
where task.id = any(array(select held.id from held))
returning task.id
