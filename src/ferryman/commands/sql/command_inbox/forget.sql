-- COMPLETED | FAILED -> (nothing)
-- With its async tasks, which have ended with it; the log keeps their moves.
with gone as materialized (
    select command.id
    from ferryman.command_inbox as command
    where command.id = any(:ids::uuid[])
      and command.finished_at is not null
    order by command.id
    for update skip locked
),
tasks as (
    delete from ferryman.async_tasks as task
    using gone
    where task.triggered_by_command_id = gone.id
)
delete from ferryman.command_inbox as command
using gone
where command.id = gone.id
returning command.id
