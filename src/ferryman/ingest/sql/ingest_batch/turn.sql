-- RUNNING -> SUCCEEDED, and the birth of the batch that follows, if one is asked for
-- With the records, where they are written in this database: in the same transaction, or in this very statement. They come
-- first, with all their triggers, and the task is locked after them: a table may be slow, or locked by its owner, and a task that
-- is locked for so long cannot be renewed. Records, task, batch: every way locks in this order, and whoever takes the claim away
-- locks task and batch in it. A stale claim has no row; what this statement has written for one is taken back by an error,
-- what its transaction has, by the caller. What an ordered source has covered so far is kept with the slice; a request that
-- succeeded closes the circuit breaker. Who was not born (it was there before, the breaker is open, the lease has passed) is
-- asked for by begin.sql, which says why.
with written as materialized (
    select
        case
            when :page::text is not null then ferryman.write_page(:look, :fresh, :records, :page, :table, :shape)
        end as rows
),
mine as materialized (
    select task.id, task.tenant, task.source, task.slice_id, task.leased_until
    from written, ferryman.ingest_task as task
    where task.id = :task_id
      and task.epoch = :epoch
      and task.lease_owner = :owner
      and task.status = 'EXECUTING'
    for no key update of task
),
-- Read after the lock: a lease may pass while records are written.
clock as materialized (
    select ferryman.clock() as now
    from mine
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
    returning batch.id, batch.tenant, batch.run_id
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
made as (
    insert into ferryman.ingest_batch (
        id, run_id, task_id, slice_id, ends_by, created_at, updated_at, batch_no, tenant, status, before_token, idempotent_key,
        stats)
    select :next_id, moved.run_id, mine.id, mine.slice_id, clock.now + :patience::interval, clock.now, clock.now, :next_no,
           moved.tenant, 'RUNNING', :next_token, :next_key, :next_stats::jsonb
    from moved, mine, clock
    where :next_id::uuid is not null
      and mine.leased_until > clock.now
      and not exists (
          select from ferryman.ingest_batch as there
          where there.idempotent_key = :next_key
            and there.status = 'SUCCEEDED')
      and not exists (
          select from ferryman.ingest_source as source
          where source.tenant = mine.tenant
            and source.source = mine.source
            and source.open_until > clock.now)
    returning id, tenant
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name)
    select clock.now, moved.id, moved.tenant, 'ingest_batch', 'RUNNING', 'SUCCEEDED', mine.source
    from moved, mine, clock
    union all
    select clock.now, made.id, made.tenant, 'ingest_batch', null, 'RUNNING', mine.source
    from made, mine, clock
)
select moved.id, covered.cursor_id, made.id as made, written.rows
from written
left join moved on true
left join covered on true
left join made on true
where case when moved.id is null and :page::text is not null then ferryman.refuse_stale_page(:id) else moved.id is not null end
