-- What a create met: by its own id, by its task_id (given, or the text of an id), by its key and scope.
select 'task_id' as hit, word.nth, task.id, coalesce(task.task_id, task.id::text) as task_id, task.tenant, task.name, task.queue, task.priority,
       task.schedule_type, task.scheduled_at, task.state, task.attempt, task.max_retries, task.timeout_ms,
       task.idempotency_key, task.idempotency_scope, task.last_error_code, task.last_error_reason, task.due_at, task.ends_at,
       task.created_at, task.updated_at, task.started_at, task.finished_at, task.lease_owner, task.leased_until,
       task.payload, task.result,
       progress.percent as progress, progress.message as progress_message
from unnest(:tenants::text[], :ids::uuid[], :task_ids::text[]) with ordinality as word (tenant, id, task_id, nth)
join ferryman.tasks as task
  on task.tenant = word.tenant and (task.id = word.id or task.task_id = word.task_id)
left join ferryman.task_progress as progress on progress.id = task.id
union all
select 'idempotency_key', word.nth, task.id, coalesce(task.task_id, task.id::text) as task_id, task.tenant, task.name, task.queue, task.priority,
       task.schedule_type, task.scheduled_at, task.state, task.attempt, task.max_retries, task.timeout_ms,
       task.idempotency_key, task.idempotency_scope, task.last_error_code, task.last_error_reason, task.due_at, task.ends_at,
       task.created_at, task.updated_at, task.started_at, task.finished_at, task.lease_owner, task.leased_until,
       task.payload, task.result,
       progress.percent, progress.message
from unnest(:tenants::text[], :keys::text[], :scopes::text[]) with ordinality as word (tenant, key, scope, nth)
join ferryman.tasks as task
  on task.tenant = word.tenant
 and task.idempotency_key = word.key
 and task.idempotency_scope is not distinct from word.scope
left join ferryman.task_progress as progress on progress.id = task.id
