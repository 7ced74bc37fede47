-- (nothing) -> pending | ready
-- What `create_alike` does, for a set of one: with no arrays to take apart it costs client and store a tenth less, and a lonely
-- create is all waiting.
with born as (
    insert into ferryman.tasks (
        id, tenant, queue, name, payload, priority, timeout_ms, max_retries, schedule_type, scheduled_at, traceparent, backoff,
        due_at, ends_at, state, rank, wake_at, created_at, updated_at
    )
    select :id::uuid, :tenant, :queue, :name, :payload::text::jsonb, :priority::smallint, :timeout_ms::bigint,
        :max_retries::integer, :schedule_type, :scheduled_at, :traceparent, :backoff::jsonb,
        due_at,
        coalesce(:ends_at::timestamptz, greatest(due_at, now) + :ends_after::interval),
        case when due_at > now then 'pending' else 'ready' end,
        -- A time long past does not jump the queue: it is due now.
        case when due_at > now then null else now + :priority::smallint * interval '60 s' end,
        case when due_at > now then due_at end,
        now,
        now
    from (select ferryman.clock() as now offset 0) as clock,
         lateral (select coalesce(:scheduled_at::timestamptz, now) as due_at) as given
    returning state, due_at, ends_at, created_at
),
told as (
    insert into ferryman.events (at, subject, attempt, tenant, kind, to_state)
    select created_at, :id::uuid, 1, :tenant, 'task', state
    from born
)
select created_at, due_at, ends_at, state,
    -- As in `create_alike`.
    case when :channel::text is null then false
         when pg_try_advisory_xact_lock(hashtextextended(:channel, 0)) then true
         when not pg_try_advisory_xact_lock(hashtextextended('ferryman.doorbell', 0)) then false
         when pg_notification_queue_usage() >= 0.5 then false
         else pg_notify(:channel, :word)::text is not null end as rung
from born
