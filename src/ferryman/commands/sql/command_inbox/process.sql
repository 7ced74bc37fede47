-- RECEIVED -> PROCESSING | FAILED, PROCESSING -> COMPLETED | FAILED; of async tasks: (nothing) -> PENDING | RUNNING
-- What the steps of these commands come to: facts, and an async task for each message. The commands are locked (lock.sql). One that
-- has ended meanwhile gets nothing more. A first step without messages leaves its command open at 1: finish.sql ends it.
with clock as materialized (
    select ferryman.clock() as now
),
live as materialized (
    select command.id, command.tenant, command.scope, command.status, command.deadline_at, word.count, word.retries,
           command.open - word.steps + word.count as rest, command.failed + word.failed as lost,
           coalesce(command.error_code, word.code) as code, coalesce(command.trouble, word.reason) as reason
    from (
        select given.*
        from unnest((select :commands::uuid[]), (select :steps::integer[]), (select :counts::integer[]), (select :retries::integer[]),
                    (select :failures::integer[]), (select :codes::text[]), (select :reasons::text[]))
            as given (command, steps, count, retries, failed, code, reason)
        limit (select 1000000)
    ) as word
    -- By its key alone: a status that is rare in an empty table would let the planner walk all of it, for as long as the plan is kept.
    cross join lateral (select each.* from ferryman.command_inbox as each where each.id = word.command offset 0) as command
    where command.status in ('RECEIVED', 'PROCESSING')
),
taken as (
    update ferryman.command_inbox as command
    set status = 'PROCESSING', started_at = clock.now, updated_at = clock.now, open = greatest(live.rest, 1), tasks = live.count,
        retry_count = live.retries
    from clock, live
    where command.id = live.id
      and live.status = 'RECEIVED'
      and live.lost = 0
    returning command.id, command.tenant, 'RECEIVED' as from_state, command.status, command.scope
),
kept as (
    update ferryman.command_inbox as command
    set updated_at = clock.now, open = live.rest, tasks = command.tasks + live.count, failed = live.lost,
        error_code = live.code, trouble = live.reason
    from clock, live
    where command.id = live.id
      and live.status = 'PROCESSING'
      and live.rest > 0
),
ended as (
    update ferryman.command_inbox as command
    set status = case when live.lost = 0 then 'COMPLETED' else 'FAILED' end,
        updated_at = clock.now, finished_at = clock.now, open = 0, failed = live.lost, retry_count = greatest(command.retry_count, live.retries),
        error_code = case when live.lost > 0 then live.code end,
        error_message = case when live.lost > 0 then live.reason end
    from clock, live
    where command.id = live.id
      and (live.status = 'RECEIVED' and live.lost > 0 or live.status = 'PROCESSING' and live.rest = 0)
    returning command.id, command.tenant, live.status as from_state, command.status, command.scope, live.code, live.reason
),
born as (
    insert into ferryman.async_tasks (
        id, tenant, task_type, message_type, triggered_by_command_id, task, status, started_at, max_retries, input_data,
        deadline_at, created_at, updated_at
    )
    select given.id, live.tenant, given.task_type, given.message_type, live.id, given.task,
        case when given.delay > 0 then 'PENDING' else 'RUNNING' end,
        case when given.delay > 0 then null else clock.now end,
        given.max_retries, given.input::jsonb,
        least(live.deadline_at, clock.now + make_interval(secs => given.deadline)), clock.now, clock.now
    from clock, unnest(
        :ids::uuid[], :owners::uuid[], :tasks::uuid[], :types::text[], :task_types::text[], :inputs::text[], :delays::float8[],
        :deadlines::float8[], :max_retries::integer[]
    ) as given (id, command, task, message_type, task_type, input, delay, deadline, max_retries)
    join live on live.id = given.command
    returning id, tenant, task_type, triggered_by_command_id, status, created_at, deadline_at
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name, reason_code, reason_message, data)
    select clock.now, event.subject, event.tenant, event.kind, event.from_state, event.to_state, event.name, event.code, event.reason, event.data
    from clock, (
        select 1 as place, null::bigint as nth, taken.id as subject, taken.tenant, 'command' as kind, taken.from_state,
               taken.status as to_state, taken.scope || '.Command.Processing' as name, null::text as code, null::text as reason,
               null::jsonb as data
        from taken
        union all
        select 2, fact.nth, live.id, live.tenant, 'fact', null, null, fact.type, null, null, fact.payload::jsonb
        from unnest(:fact_commands::uuid[], :fact_types::text[], :fact_payloads::text[])
            with ordinality as fact (command, type, payload, nth)
        join live on live.id = fact.command
        union all
        select 3, null, born.id, born.tenant, 'async_task', null, born.status, born.task_type, null, null,
               jsonb_build_object('correlation_id', born.triggered_by_command_id)
        from born
        union all
        select 4, null, ended.id, ended.tenant, 'command', ended.from_state, ended.status,
               ended.scope || '.Command.' || initcap(ended.status), ended.code, ended.reason, null
        from ended
        order by place, nth, subject
    ) as event
)
select 'async_task' as kind, born.id, born.status, born.created_at, born.deadline_at
from born
union all
select 'command', ended.id, ended.status, null, null
from ended
