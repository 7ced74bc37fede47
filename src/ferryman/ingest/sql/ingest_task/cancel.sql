-- QUEUED -> CANCELLED
with moved as (
    update ferryman.ingest_task as task
    set status = 'CANCELLED', rank = null, finished_at = ferryman.clock(), updated_at = ferryman.clock(),
        error_code = :code::text, error_reason = :reason::text
    where task.id = any(:ids::uuid[])
      and task.status = 'QUEUED'
    returning task.id, task.tenant, task.source, task.attempt, task.updated_at
),
told as (
    insert into ferryman.events (at, subject, attempt, tenant, kind, from_state, to_state, subject_name, reason_code, reason_message)
    select moved.updated_at, moved.id, moved.attempt, moved.tenant, 'ingest_task', 'QUEUED', 'CANCELLED', moved.source, :code, :reason
    from moved
)
select id, tenant, source
from moved
