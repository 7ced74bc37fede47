-- pending | ready | running -> cancelled
-- Ordered by id, the order in which everybody locks tasks. A running handler learns of it because its renewal is refused.
-- The limit keeps the planner at one lookup a row (see turn.sql).
with clock as materialized (
    select ferryman.clock() as now
),
held as materialized (
    select live.id, live.tenant, live.state
    from clock, (select id from unnest((select :ids::uuid[])) as given (id) order by id limit (select 1000000)) as word
    cross join lateral (
        select task.id, task.tenant, task.state
        from ferryman.tasks as task
        where task.id = word.id
          and task.state in ('pending', 'ready', 'running')
          and (:tenant::text is null or task.tenant = :tenant::text)
          and (not :expired::boolean or (task.ends_at <= clock.now and task.leased_until is null))
        for update
    ) as live
),
moved as (
    update ferryman.tasks as task
    set state = 'cancelled', finished_at = clock.now, updated_at = clock.now, rank = null, wake_at = null,
        lease_owner = null, leased_until = null,
        last_error_code = coalesce(:code::text, task.last_error_code),
        last_error_reason = case when :code::text is null then task.last_error_reason else :reason::text end
    from clock, held
    where task.id = held.id
      and task.tenant = held.tenant
      and task.state in ('pending', 'ready', 'running')
    returning task.id, task.tenant, task.task_id, task.name, task.state, task.attempt, :code::text as code, :reason::text as reason,
              null::text as result, task.callback, task.callback_ref, task.queue, null::uuid as owner, held.state as from_state,
              exists (select from ferryman.task_steps as step
                      where step.task = task.id and step.kind = 'child' and step.state = 'open') as bore
),
told as (
    insert into ferryman.events (at, subject, attempt, tenant, kind, from_state, to_state, subject_name, reason_code, reason_message)
    select clock.now, moved.id, moved.attempt, moved.tenant, 'task', moved.from_state, 'cancelled', moved.task_id, moved.code, moved.reason
    from moved, clock
)
select id, tenant, task_id, name, state, attempt, code, reason, result, callback, callback_ref, queue, owner, from_state, bore
from moved
