-- (nothing) -> pending | ready
-- A birth under flow control: like create.sql, with the keys by which the task meets others. One whose singleton lives or whose
-- debounce waits already is not born and not in the answer.
with clock as materialized (
    select ferryman.clock() as now
),
word as (
    select given.*, coalesce(given.scheduled_at, clock.now + coalesce(given.quiet, interval '0')) as due_at, clock.now
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
