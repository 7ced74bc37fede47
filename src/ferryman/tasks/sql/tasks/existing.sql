-- What a create met: by its own id, by its task_id, by its key and scope.
-- The limit keeps the planner at one lookup a row (see turn.sql), so each way has its own.
with word as materialized (
    select given.tenant, given.id, given.task_id, given.key, given.scope, given.nth
    from unnest((select :tenants::text[]), (select :ids::uuid[]), (select :task_ids::text[]), (select :keys::text[]),
                (select :scopes::text[])) with ordinality as given (tenant, id, task_id, key, scope, nth)
    limit (select 1000000)
),
met as (
    select 'task_id' as hit, word.nth, task.id
    from word
    join ferryman.tasks as task on task.id = word.id
    where task.tenant = word.tenant
    union all
    select 'task_id', word.nth, task.id
    from word
    join ferryman.tasks as task on task.tenant = word.tenant and task.task_id = word.task_id
    union all
    select 'idempotency_key', word.nth, task.id
    from word
    join ferryman.tasks as task on task.tenant = word.tenant and task.idempotency_key = word.key
    where task.idempotency_scope is not distinct from word.scope
)
select met.hit, met.nth, task.id, coalesce(task.task_id, task.id::text) as task_id, task.tenant, task.name, task.queue, task.priority,
       task.schedule_type, task.scheduled_at, task.state, task.attempt, task.max_retries, task.timeout_ms,
       task.idempotency_key, task.idempotency_scope, task.last_error_code, task.last_error_reason, task.due_at, task.ends_at,
       task.created_at, task.updated_at, task.started_at, task.finished_at, task.lease_owner, task.leased_until,
       task.payload::text as payload, task.result::text as result,
       progress.percent as progress, progress.message as progress_message, task.schedule, task.fire_time,
       task.limit_key, task.retry_of
from met
cross join lateral (select each.* from ferryman.tasks as each where each.id = met.id offset 0) as task
left join ferryman.task_progress as progress on progress.id = task.id
