-- (nothing) -> pending | ready
-- Born `ready` if due, else `pending`. A row whose id, task_id or key exists already is not born and not in the answer:
-- the caller then reads what is there (existing.sql). A birth is an event, not a move.
with clock as materialized (
    select ferryman.clock() as now
),
word as (
    select given.*, coalesce(given.scheduled_at, clock.now) as due_at, clock.now
    from clock, unnest(
        :ids::uuid[], :tenants::text[], :queues::text[], :names::text[], :payloads::text[], :priorities::smallint[],
        :timeouts::bigint[], :retries::integer[], :schedule_types::text[], :scheduled::timestamptz[], :ends::timestamptz[],
        :task_ids::text[], :keys::text[], :scopes::text[], :callbacks::text[], :refs::text[], :traces::text[], :backoffs::text[]
    ) as given (
        id, tenant, queue, name, payload, priority, timeout_ms, max_retries, schedule_type, scheduled_at, ends_at,
        task_id, idempotency_key, idempotency_scope, callback, callback_ref, traceparent, backoff
    )
),
born as (
    insert into ferryman.tasks (
        id, tenant, queue, name, payload, priority, timeout_ms, max_retries, schedule_type, scheduled_at, task_id,
        idempotency_key, idempotency_scope, callback, callback_ref, traceparent, backoff,
        due_at, ends_at, state, rank, wake_at, created_at, updated_at
    )
    select id, tenant, queue, name, payload::jsonb, priority, timeout_ms, max_retries, schedule_type, scheduled_at, task_id,
        idempotency_key, idempotency_scope, callback, callback_ref, traceparent, backoff::jsonb,
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
)
select id, state, due_at, ends_at, created_at
from born
