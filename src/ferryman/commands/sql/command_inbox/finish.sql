-- PROCESSING -> COMPLETED
-- A command whose first step asked for nothing: all of its no tasks are completed.
with clock as materialized (
    select ferryman.clock() as now
),
ended as (
    update ferryman.command_inbox as command
    set status = 'COMPLETED', updated_at = clock.now, finished_at = clock.now, open = 0
    from clock
    where command.id = any(:ids::uuid[])
      and command.status = 'PROCESSING'
      and command.tasks = 0
    returning command.id, command.tenant, command.scope
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name)
    select clock.now, ended.id, ended.tenant, 'command', 'PROCESSING', 'COMPLETED', ended.scope || '.Command.Completed'
    from ended, clock
)
select id
from ended
