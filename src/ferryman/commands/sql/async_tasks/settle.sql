-- PENDING | RUNNING -> COMPLETED | FAILED | CANCELLED; of their commands: PROCESSING -> COMPLETED | FAILED
-- The parents are locked. A task that has ended before keeps its end. What was registered for a result counts as open before the
-- task is closed, so that no command ends between a result and what follows it.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    -- A column that is null for the whole set comes as an empty array: rows beyond the end of an array get null.
    select given.id, given.status, given.error, given.code, given.reason, given.retries, given.node, given.follow_up,
           given.message ->> 'type' as type, coalesce(nullif(given.message #> '{data,result}', 'null'), '{}') as result
    from (
        select each.id, each.status, each.message::jsonb as message, each.error, each.code, each.reason, each.retries, each.node,
               each.follow_up
        from unnest((select :ids::uuid[]), (select :statuses::text[]), (select :messages::text[]), (select :errors::text[]),
                    (select :codes::text[]), (select :reasons::text[]), (select :retries::integer[]), (select :nodes::text[]),
                    (select :follow_ups::uuid[]))
            as each (id, status, message, error, code, reason, retries, node, follow_up)
        limit (select 1000000)
    ) as given
    limit (select 1000000)
),
open as materialized (
    select word.*, task.status as from_state, command.id as command, command.session_id,
           route.result_type is not null and command.status = 'PROCESSING' as follows
    from word
    -- By their keys alone (see process.sql).
    cross join lateral (select each.* from ferryman.async_tasks as each where each.id = word.id offset 0) as task
    left join lateral (
        select each.id, each.status, each.session_id from ferryman.command_inbox as each where each.id = task.triggered_by_command_id offset 0
    ) as command on true
    left join ferryman.command_routes as route on route.result_type = word.type and word.status = 'COMPLETED'
    where task.status in ('PENDING', 'RUNNING')
      and (not :late::boolean or task.deadline_at <= (select now from clock))
),
moved as (
    update ferryman.async_tasks as task
    set status = open.status, completed_at = clock.now, updated_at = clock.now,
        started_at = case when open.status = 'COMPLETED' then coalesce(task.started_at, clock.now) else task.started_at end,
        progress = case when open.status = 'COMPLETED' then 100 else task.progress end,
        result_data = case when open.status = 'COMPLETED' then open.result end,
        error_data = open.error::jsonb,
        retry_count = least(coalesce(open.retries, task.retry_count), task.max_retries),
        execution_node = coalesce(open.node, task.execution_node),
        follow_up = case when open.follows then open.follow_up end
    from clock, open
    where task.id = open.id
    returning task.id, task.tenant, task.task_type, task.task, task.input_data, task.status, task.triggered_by_command_id, open.from_state,
              open.type, open.result, open.code, open.reason, open.follows, open.follow_up, open.session_id
),
tally as materialized (
    select command.id, command.tenant, command.scope, command.status, sum.first_code, sum.first_reason,
           command.open - sum.closed + sum.follow as rest, command.failed + sum.lost as lost
    from (
        select moved.triggered_by_command_id as id, count(*)::integer as closed, count(*) filter (where moved.follows)::integer as follow,
               count(*) filter (where moved.status <> 'COMPLETED')::integer as lost,
               min(coalesce(moved.code, moved.status)) filter (where moved.status <> 'COMPLETED') as first_code,
               min(moved.task_type || ': ' || coalesce(moved.reason, lower(moved.status))) filter (where moved.status <> 'COMPLETED') as first_reason
        from moved
        where moved.triggered_by_command_id is not null
        group by moved.triggered_by_command_id
    ) as sum
    cross join lateral (select each.* from ferryman.command_inbox as each where each.id = sum.id offset 0) as command
    where command.status = 'PROCESSING'
),
kept as (
    update ferryman.command_inbox as command
    set updated_at = clock.now, open = tally.rest, failed = tally.lost,
        error_code = coalesce(command.error_code, tally.first_code), trouble = coalesce(command.trouble, tally.first_reason)
    from clock, tally
    where command.id = tally.id
      and tally.rest > 0
),
ended as (
    update ferryman.command_inbox as command
    set status = case when tally.lost = 0 then 'COMPLETED' else 'FAILED' end,
        updated_at = clock.now, finished_at = clock.now, open = 0, failed = tally.lost,
        error_code = case when tally.lost > 0 then coalesce(command.error_code, tally.first_code) end,
        error_message = case when tally.lost > 0 then coalesce(command.trouble, tally.first_reason) end
    from clock, tally
    where command.id = tally.id
      and tally.rest = 0
    returning command.id, command.tenant, command.scope, command.status, command.error_code, command.error_message
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name, reason_code, reason_message, data)
    select clock.now, event.subject, event.tenant, event.kind, event.from_state, event.to_state, event.name, event.code, event.reason, event.data
    from clock, (
        select 1 as place, moved.id as subject, moved.tenant, 'async_task' as kind, moved.from_state, moved.status as to_state,
               moved.task_type as name, moved.code, moved.reason, null::jsonb as data
        from moved
        union all
        select 2, coalesce(moved.triggered_by_command_id, moved.id), moved.tenant, 'fact', null, null, coalesce(moved.type, moved.task_type || '.Completed'), null, null,
               jsonb_build_object('async_task_id', moved.id, 'correlation_id', moved.triggered_by_command_id,
                                  'session_id', moved.session_id, 'result', moved.result)
        from moved
        where moved.status = 'COMPLETED'
        union all
        select 3, ended.id, ended.tenant, 'command', 'PROCESSING', ended.status, ended.scope || '.Command.' || initcap(ended.status),
               ended.error_code, ended.error_message, null
        from ended
        order by place, subject
    ) as event
)
select 'async_task' as kind, moved.id, moved.tenant, moved.status, moved.triggered_by_command_id as command, moved.task, moved.task_type,
       moved.type, moved.follows, moved.follow_up, moved.session_id, case when moved.follows then moved.input_data::text end as input,
       case when moved.follows then moved.result::text end as result
from moved
union all
select 'command', ended.id, ended.tenant, ended.status, null, null, null, null, false, null, null, null, null
from ended
