-- (nothing) -> pending | ready
-- Born `ready` if due, else `pending`. A row whose id, task_id or key exists already, whose singleton lives or whose debounce
-- waits is not born and not in the answer: the caller then reads what is there (existing.sql, standing.sql). A birth is an
-- event, not a move.
with clock as materialized (
    select ferryman.clock() as now
),
word as (
    -- A column that is the same for the whole set comes once, beside an empty array: arrays are what a set costs the client.
    select given.id, given.payload, given.schedule_type, given.scheduled_at, given.ends_at, given.task_id,
        given.idempotency_key, given.idempotency_scope, given.callback, given.callback_ref, given.traceparent, given.backoff,
        given.limit_key, given.singleton, given.debounce,
        coalesce(given.tenant, :tenant) as tenant,
        coalesce(given.queue, :queue) as queue,
        coalesce(given.name, :name) as name,
        coalesce(given.priority, :priority::smallint) as priority,
        coalesce(given.timeout_ms, :timeout_ms::bigint) as timeout_ms,
        coalesce(given.max_retries, :max_retries::integer) as max_retries,
        -- What waits for quiet waits from now; greatest() passes over what is null.
        coalesce(greatest(given.scheduled_at, clock.now + given.quiet), clock.now) as due_at,
        clock.now
    from clock, unnest(
        :ids::uuid[], :tenants::text[], :queues::text[], :names::text[], :payloads::text[], :priorities::smallint[],
        :timeouts::bigint[], :retries::integer[], :schedule_types::text[], :scheduled::timestamptz[], :ends::timestamptz[],
        :task_ids::text[], :keys::text[], :scopes::text[], :callbacks::text[], :refs::text[], :traces::text[], :backoffs::text[],
        :limit_keys::text[], :singletons::text[], :debounces::text[], :quiets::interval[]
    ) as given (
        id, tenant, queue, name, payload, priority, timeout_ms, max_retries, schedule_type, scheduled_at, ends_at,
        task_id, idempotency_key, idempotency_scope, callback, callback_ref, traceparent, backoff,
        limit_key, singleton, debounce, quiet
    )
),
born as (
    insert into ferryman.tasks (
        id, tenant, queue, name, payload, priority, timeout_ms, max_retries, schedule_type, scheduled_at, task_id,
        idempotency_key, idempotency_scope, callback, callback_ref, traceparent, backoff, limit_key, singleton, debounce,
        due_at, ends_at, state, rank, wake_at, created_at, updated_at
    )
    select id, tenant, queue, name, payload::jsonb, priority, timeout_ms, max_retries, schedule_type, scheduled_at, task_id,
        idempotency_key, idempotency_scope, callback, callback_ref, traceparent, backoff::jsonb, limit_key, singleton, debounce,
        due_at,
        coalesce(ends_at, greatest(due_at, now) + :ends_after::interval),
        case when due_at > now then 'pending' else 'ready' end,
        -- A time long past does not jump the queue: it is due now.
        case when due_at > now then null else now + priority * interval '60 s' end,
        case when due_at > now then due_at end,
        now,
        now
    from word
    on conflict do nothing
    returning id, tenant, task_id, state, due_at, ends_at, created_at
),
told as (
    insert into ferryman.events (at, subject, attempt, tenant, kind, to_state, subject_name)
    select created_at, id, 1, tenant, 'task', state, task_id
    from born
),
bell as materialized (
    -- The ring goes along unless somebody else's does, or the queue of notifications fills up: kernel/doorbell_pg.py tells why.
    select case when :channel::text is null then null
                when not pg_try_advisory_xact_lock(hashtextextended('ferryman.doorbell', 0)) then null
                when pg_notification_queue_usage() >= 0.5 then null
                else 'rung' || pg_notify(:channel, :word)::text end as rung
)
select born.id, born.state, born.due_at, born.ends_at, born.created_at, bell.rung
from born, bell
