-- (nothing) -> pending | ready
-- A set of tasks that differ only in id and payload: everything else comes once, and what they have in common is answered
-- once. The ids were made by the creator, so one that exists already is this very create, sent twice: it fails as a whole,
-- and store/births.py says so. Asking for conflicts of each row would cost the store a fifth of its time.
with form as materialized (
    select now, due_at, due_at > now as waits,
           coalesce(:ends_at::timestamptz, greatest(due_at, now) + :ends_after::interval) as ends_at,
           case when due_at > now then 'pending' else 'ready' end as state
    from ferryman.clock() as now, lateral (select coalesce(:scheduled_at::timestamptz, now) as due_at) as given
),
born as (
    insert into ferryman.tasks (
        id, tenant, queue, name, payload, priority, timeout_ms, max_retries, schedule_type, scheduled_at, traceparent, backoff,
        due_at, ends_at, state, rank, wake_at, created_at, updated_at
    )
    select given.id, :tenant, :queue, :name, given.payload::jsonb, :priority::smallint, :timeout_ms::bigint,
        :max_retries::integer, :schedule_type, :scheduled_at, :traceparent, :backoff::jsonb,
        form.due_at,
        form.ends_at,
        form.state,
        -- A time long past does not jump the queue: it is due now.
        case when not form.waits then form.now + :priority::smallint * interval '60 s' end,
        case when form.waits then form.due_at end,
        form.now,
        form.now
    from form, unnest(:ids::uuid[], :payloads::text[]) as given (id, payload)
),
told as (
    insert into ferryman.events (at, subject, attempt, tenant, kind, to_state)
    select form.now, given.id, 1, :tenant, 'task', form.state
    from form, unnest(:ids::uuid[]) as given (id)
)
select now as created_at, due_at, ends_at, state,
    -- Nobody is rung who is not there, and the ring goes along unless somebody else's does, or the queue of notifications fills
    -- up: kernel/doorbell_pg.py tells why.
    case when :channel::text is null then null
         when pg_try_advisory_xact_lock(hashtextextended(:channel, 0)) then 'nobody'
         when not pg_try_advisory_xact_lock(hashtextextended('ferryman.doorbell', 0)) then null
         when pg_notification_queue_usage() >= 0.5 then null
         else 'rung' || pg_notify(:channel, :word)::text end as rung
from form
