-- dispatched -> pending
-- A dispatch that may succeed later; nothing was asked of the child.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select given.id, given.delay, given.code
    from unnest((select :ids::uuid[]), (select :delays::interval[]), (select :codes::text[])) as given (id, delay, code)
    limit (select 1000000)
),
back as (
    update ferryman.pmo_batch_tasks as task
    set status = 'pending', updated_at = clock.now, next_retry_at = clock.now + word.delay, current_agent_turn_id = null,
        dispatched_at = null
    from clock, word
    where task.id = word.id
      and task.status = 'dispatched'
      and task.current_turn_epoch is null
    returning task.id, task.tenant, task.agent_id, task.batch_id, word.code
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name, reason_code, data)
    select clock.now, back.id, back.tenant, 'batch.task', 'dispatched', 'pending', back.agent_id, back.code,
           jsonb_build_object('batch_id', back.batch_id)
    from back, clock
)
select id
from back
