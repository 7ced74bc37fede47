-- (nothing) -> ready
-- What `create_alike` does, for one task that is due now: with no arrays to take apart and no times to compare it costs client
-- and store less, and a lonely create is all waiting. Parameters in the order of `store/births.py`.
with born as (
    insert into ferryman.tasks (
        id, tenant, queue, name, payload, priority, timeout_ms, max_retries, traceparent, backoff,
        due_at, ends_at, state, rank, created_at, updated_at
    )
    select :id::uuid, :tenant, :queue, :name, :payload::text::jsonb, :priority::smallint, :timeout_ms::bigint,
        :max_retries::integer, :traceparent, :backoff::jsonb,
        now, now + :ends_after::interval, 'ready', now + :priority::smallint * interval '60 s', now, now
    from (select ferryman.clock() as now offset 0) as clock
    returning ends_at, created_at
),
told as (
    insert into ferryman.events (at, subject, attempt, tenant, kind, to_state)
    select created_at, :id::uuid, 1, :tenant, 'task', 'ready'
    from born
)
select created_at, ends_at,
    -- As in `create_alike`.
    case when :channel::text is null then null
         when pg_try_advisory_xact_lock(hashtextextended(:channel, 0)) then 'nobody'
         when not pg_try_advisory_xact_lock(hashtextextended('ferryman.doorbell', 0)) then null
         when pg_notification_queue_usage() >= 0.5 then null
         else 'rung' || pg_notify(:channel, :word)::text end as rung
from born
