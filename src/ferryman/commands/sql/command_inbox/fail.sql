-- RECEIVED | PROCESSING -> FAILED; of its async tasks: PENDING | RUNNING -> FAILED | CANCELLED
-- Ends commands as a whole: cancelled, or past their deadline. They are locked (lock.sql). Answers with the tasks that ran for them.
with clock as materialized (
    select ferryman.clock() as now
),
live as materialized (
    select command.id, command.tenant, command.scope, command.status, command.task
    from (select id from unnest((select :ids::uuid[])) as given (id) limit (select 1000000)) as word
    cross join clock
    cross join lateral (select each.* from ferryman.command_inbox as each where each.id = word.id offset 0) as command
    where command.status in ('RECEIVED', 'PROCESSING')
      and (not :late::boolean or command.deadline_at <= clock.now)
),
open as materialized (
    select task.id, task.status
    from live
    join ferryman.async_tasks as task on task.triggered_by_command_id = live.id
    where task.status in ('PENDING', 'RUNNING')
),
stopped as (
    update ferryman.async_tasks as task
    set status = :to::text, completed_at = clock.now, updated_at = clock.now,
        error_data = jsonb_build_object('code', :code::text, 'message', :reason::text)
    from clock, open
    where task.id = open.id
    returning task.id, task.tenant, task.task_type, task.task, task.triggered_by_command_id, open.status as from_state
),
ended as (
    update ferryman.command_inbox as command
    set status = 'FAILED', updated_at = clock.now, finished_at = clock.now, open = 0,
        failed = command.failed + (select count(*) from stopped where stopped.triggered_by_command_id = command.id),
        error_code = :code::text, error_message = :reason::text
    from clock, live
    where command.id = live.id
    returning command.id, command.tenant, command.scope, live.status as from_state, live.task
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name, reason_code, reason_message)
    select clock.now, event.id, event.tenant, event.kind, event.from_state, event.to_state, event.name, :code::text, :reason::text
    from clock, (
        select 1 as place, stopped.id, stopped.tenant, 'async_task' as kind, stopped.from_state, :to::text as to_state,
               stopped.task_type as name
        from stopped
        union all
        select 2, ended.id, ended.tenant, 'command', ended.from_state, 'FAILED', ended.scope || '.Command.Failed'
        from ended
        order by place, id
    ) as event
)
select 'command' as kind, ended.id, case when ended.from_state = 'RECEIVED' then ended.task end as task
from ended
union all
select 'async_task', stopped.id, stopped.task
from stopped
union all
-- What was to follow a result is not wanted any more either.
select 'follow_up', task.id, task.follow_up
from ended
join ferryman.async_tasks as task on task.triggered_by_command_id = ended.id
where task.follow_up is not null
