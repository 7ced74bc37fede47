-- COMPLETED | FAILED | CANCELLED -> (nothing)
with gone as materialized (
    select task.id
    from ferryman.async_tasks as task
    where task.id = any(:ids::uuid[])
      and task.completed_at is not null
      and task.triggered_by_command_id is null
    order by task.id
    for update skip locked
)
delete from ferryman.async_tasks as task
using gone
where task.id = gone.id
returning task.id
