-- RUNNING -> SUCCEEDED
-- In the transaction that writes the records, where the sink is in this database. No row: the claim is stale, and the
-- transaction must be taken back. What an ordered source has covered so far is kept with the slice; a request that succeeded
-- closes the circuit breaker.
with clock as materialized (
    select ferryman.clock() as now
),
mine as materialized (
    select task.id, task.tenant, task.source, task.slice_id
    from ferryman.ingest_task as task
    where task.id = :task_id
      and task.epoch = :epoch
      and task.lease_owner = :owner
      and task.status = 'EXECUTING'
    for no key update of task
),
moved as (
    update ferryman.ingest_batch as batch
    set status = 'SUCCEEDED', ends_by = null, committed_at = clock.now, updated_at = clock.now, after_token = :after_token,
        has_next = :has_next, record_count = :record_count, requests = :requests, watermark = :watermark,
        stats = batch.stats || :stats::jsonb
    from clock, mine
    where batch.id = :id
      and batch.task_id = mine.id
      and batch.status = 'RUNNING'
    returning batch.id, batch.tenant
),
covered as (
    update ferryman.ingest_slice as slice
    set covered = greatest(slice.covered, least(slice.upper, :covered::bigint)), updated_at = clock.now
    from clock, mine, moved
    where slice.id = mine.slice_id
      and :covered::bigint > slice.lower
    returning slice.cursor_id
),
closed as (
    update ferryman.ingest_source as source
    set failures = 0, open_until = null
    from mine, moved
    where source.tenant = mine.tenant
      and source.source = mine.source
      and source.failures > 0
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name)
    select clock.now, moved.id, moved.tenant, 'ingest_batch', 'RUNNING', 'SUCCEEDED', mine.source
    from moved, mine, clock
)
select moved.id, covered.cursor_id
from moved
left join covered on true
