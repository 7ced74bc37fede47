-- What a birth under flow control met: the live task with its singleton, or the waiting one with its debounce.
-- The limit keeps the planner at one lookup a row (see turn.sql).
with word as materialized (
    select given.tenant, given.singleton, given.debounce, given.nth
    from unnest((select :tenants::text[]), (select :singletons::text[]), (select :debounces::text[]))
        with ordinality as given (tenant, singleton, debounce, nth)
    limit (select 1000000)
),
met as (
    select 'singleton' as hit, word.nth, task.id
    from word
    join ferryman.tasks as task on task.tenant = word.tenant and task.singleton = word.singleton
    where task.finished_at is null
    union all
    select 'debounce', word.nth, task.id
    from word
    join ferryman.tasks as task on task.tenant = word.tenant and task.debounce = word.debounce
    where task.state = 'pending'
)
select met.hit, met.nth, task.id, coalesce(task.task_id, task.id::text) as task_id, task.tenant, task.name, task.queue, task.priority,
       task.schedule_type, task.scheduled_at, task.state, task.attempt, task.max_retries, task.timeout_ms,
       task.idempotency_key, task.idempotency_scope, task.last_error_code, task.last_error_reason, task.due_at, task.ends_at,
       task.created_at, task.updated_at, task.started_at, task.finished_at, task.lease_owner, task.leased_until,
       task.payload, task.result,
       null::smallint as progress, null::text as progress_message, task.schedule, task.fire_time,
       task.limit_key, task.retry_of
from met
cross join lateral (select each.* from ferryman.tasks as each where each.id = met.id offset 0) as task
