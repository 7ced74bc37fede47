-- One task, by its id or by the task_id its creator gave it.
-- Each way has its own lookup: with both in one condition a plan made while the table was empty walks all of it.
select task.id, coalesce(task.task_id, task.id::text) as task_id, task.tenant, task.name, task.queue, task.priority,
       task.schedule_type, task.scheduled_at, task.state, task.attempt, task.max_retries, task.timeout_ms,
       task.idempotency_key, task.idempotency_scope, task.last_error_code, task.last_error_reason, task.due_at, task.ends_at,
       task.created_at, task.updated_at, task.started_at, task.finished_at, task.lease_owner, task.leased_until,
       task.payload::text as payload, task.result::text as result,
       progress.percent as progress, progress.message as progress_message, task.schedule, task.fire_time,
       task.limit_key, task.retry_of
from (
    select by_id.id
    from ferryman.tasks as by_id
    where by_id.id = :id
      and by_id.tenant = :tenant
    union all
    select by_name.id
    from ferryman.tasks as by_name
    where by_name.tenant = :tenant
      and by_name.task_id = :task_id
    limit 1
) as found
cross join lateral (select each.* from ferryman.tasks as each where each.id = found.id offset 0) as task
left join ferryman.task_progress as progress on progress.id = task.id
