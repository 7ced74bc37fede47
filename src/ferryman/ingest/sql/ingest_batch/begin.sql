-- The birth of a batch, before its request goes out; or what is at its position already.
-- Fenced: the task is locked, so that no reaper ends the run between the look and the insert. Said again, because the answer
-- never came, it answers with what the first try made. A first try that is still under way, and ends while this one waits for
-- the task, is not seen by it: it makes nothing then, and tells of nothing, and whoever asked asks once more.
with clock as materialized (
    select ferryman.clock() as now
),
mine as materialized (
    select task.id, task.source, run.id as run_id, source.open_until
    from clock, ferryman.ingest_task as task
    join ferryman.ingest_run as run on run.task_id = task.id and run.attempt = task.attempt
    join ferryman.ingest_source as source on source.tenant = task.tenant and source.source = task.source
    where task.id = :task_id
      and task.epoch = :epoch
      and task.lease_owner = :owner
      and task.status = 'EXECUTING'
      and task.leased_until > clock.now
      and run.status = 'RUNNING'
    for no key update of task
),
there as materialized (
    select batch.id, batch.status, batch.after_token, batch.has_next, batch.record_count, batch.watermark
    from ferryman.ingest_batch as batch
    where batch.idempotent_key = :key
      and batch.status = 'SUCCEEDED'
),
own as materialized (
    select batch.id
    from ferryman.ingest_batch as batch
    where batch.id = :id
      and batch.status = 'RUNNING'
),
made as (
    insert into ferryman.ingest_batch (
        id, run_id, task_id, slice_id, ends_by, created_at, updated_at, batch_no, tenant, status, before_token, idempotent_key,
        stats)
    select :id, mine.run_id, mine.id, :slice_id, clock.now + :patience::interval, clock.now, clock.now, :batch_no, :tenant,
           'RUNNING', :before_token, :key, :stats::jsonb
    from mine, clock
    where not exists (select from there)
      and not exists (select from own)
      and (mine.open_until is null or mine.open_until <= clock.now)
    on conflict do nothing
    returning id, tenant
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, to_state, subject_name)
    select clock.now, made.id, made.tenant, 'ingest_batch', 'RUNNING', mine.source
    from made, mine, clock
)
select coalesce(made.id, own.id) as made, there.id as there, there.after_token, there.has_next, there.record_count,
       extract(epoch from mine.open_until - clock.now)::float8 as shut_for
from mine
cross join clock
left join made on true
left join own on true
left join there on true
