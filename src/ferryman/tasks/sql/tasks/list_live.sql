-- The newest tasks of a live state first, as list.sql, but found by the partial indexes of what lives: among a million that have
-- ended the few that live would be found late by their ids. More than :most live ones are not looked through here: then looked is
-- :most, and walking the ids finds them soon.
with live as materialized (
    (
        select running.id
        from ferryman.tasks as running
        where running.leased_until is not null
          and :state::text = 'running'
        limit :most
    )
    union all
    (
        select waiting.id
        from ferryman.tasks as waiting
        where waiting.finished_at is null
          and waiting.leased_until is null
          and :state::text <> 'running'
        limit :most
    )
),
page as materialized (
    select task.id, coalesce(task.task_id, task.id::text) as task_id, task.tenant, task.name, task.queue, task.priority,
           task.schedule_type, task.scheduled_at, task.state, task.attempt, task.max_retries, task.timeout_ms,
           task.idempotency_key, task.idempotency_scope, task.last_error_code, task.last_error_reason, task.due_at, task.ends_at,
           task.created_at, task.updated_at, task.started_at, task.finished_at, task.lease_owner, task.leased_until,
           task.payload::text as payload, task.result::text as result,
           progress.percent as progress, progress.message as progress_message, task.schedule, task.fire_time,
           task.limit_key, task.retry_of
    from live
    cross join lateral (select each.* from ferryman.tasks as each where each.id = live.id offset 0) as task
    left join ferryman.task_progress as progress on progress.id = task.id
    where task.tenant = :tenant
      and task.state = :state::text
      and (:queue::text is null or task.queue = :queue::text)
      and (:name::text is null or task.name = :name::text)
      and (:before::uuid is null or task.id < :before::uuid)
    order by task.id desc
    limit :limit
)
select looked.looked, page.id, page.task_id, page.tenant, page.name, page.queue, page.priority, page.schedule_type,
       page.scheduled_at, page.state, page.attempt, page.max_retries, page.timeout_ms, page.idempotency_key,
       page.idempotency_scope, page.last_error_code, page.last_error_reason, page.due_at, page.ends_at, page.created_at,
       page.updated_at, page.started_at, page.finished_at, page.lease_owner, page.leased_until, page.payload, page.result,
       page.progress, page.progress_message, page.schedule, page.fire_time, page.limit_key, page.retry_of
from (select count(*)::integer as looked from live) as looked
left join page on true
order by page.id desc
