-- Locks async tasks that have no command, in the order of their ids; the others are guarded by the lock of their command.
select held.id
from (select id from unnest((select :ids::uuid[])) as given (id) order by id limit (select 1000000)) as word
cross join lateral (
    select task.id
    from ferryman.async_tasks as task
    where task.id = word.id
      and task.triggered_by_command_id is null
    for update
) as held
