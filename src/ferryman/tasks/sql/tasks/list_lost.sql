-- The newest tasks that failed or were cancelled first, as list.sql, but found by an index of their own: among millions that went
-- well they would be found late by their ids.
select task.id, coalesce(task.task_id, task.id::text) as task_id, task.tenant, task.name, task.queue, task.priority,
       task.schedule_type, task.scheduled_at, task.state, task.attempt, task.max_retries, task.timeout_ms,
       task.idempotency_key, task.idempotency_scope, task.last_error_code, task.last_error_reason, task.due_at, task.ends_at,
       task.created_at, task.updated_at, task.started_at, task.finished_at, task.lease_owner, task.leased_until,
       task.payload, task.result,
       progress.percent as progress, progress.message as progress_message, task.schedule, task.fire_time,
       task.limit_key, task.retry_of
from ferryman.tasks as task
left join ferryman.task_progress as progress on progress.id = task.id
where task.tenant = :tenant
  and task.state in ('failed', 'cancelled')
  and task.state = :state::text
  and (:queue::text is null or task.queue = :queue::text)
  and (:name::text is null or task.name = :name::text)
  and (:before::uuid is null or task.id < :before::uuid)
order by task.id desc
limit :limit
