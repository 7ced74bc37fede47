-- RUNNING -> FAILED
with mine as materialized (
    select task.id, task.source
    from ferryman.ingest_task as task
    where task.id = :task_id
      and task.epoch = :epoch
      and task.lease_owner = :owner
      and task.status = 'EXECUTING'
    for no key update of task
),
moved as (
    update ferryman.ingest_batch as batch
    set status = 'FAILED', ends_by = null, updated_at = ferryman.clock(), requests = :requests, error_reason = :reason::text,
        stats = batch.stats || :stats::jsonb
    from mine
    where batch.id = :id
      and batch.task_id = mine.id
      and batch.status = 'RUNNING'
    returning batch.id, batch.tenant, batch.updated_at
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name, reason_message)
    select moved.updated_at, moved.id, moved.tenant, 'ingest_batch', 'RUNNING', 'FAILED', mine.source, :reason
    from moved, mine
)
select id
from moved
