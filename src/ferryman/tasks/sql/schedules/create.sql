-- (nothing) -> active
-- A schedule whose id, name or key exists already is not born and not in the answer: the caller then reads what is there.
with clock as materialized (
    select ferryman.clock() as now
),
born as (
    insert into ferryman.schedules (
        id, tenant, queue, name, payload, priority, timeout_ms, max_retries, schedule_type, cron_expr, timezone, interval_ms,
        catch_up, overlap, ends_at, schedule_id, idempotency_key, idempotency_scope, backoff, declared, next_run_at,
        limit_key, singleton, debounce, quiet, state, created_at, updated_at
    )
    select word.id, word.tenant, word.queue, word.name, word.payload::jsonb, word.priority, word.timeout_ms, word.max_retries,
        word.schedule_type, word.cron_expr, word.timezone, word.interval_ms, word.catch_up, word.overlap, word.ends_at,
        word.schedule_id, word.idempotency_key, word.idempotency_scope, word.backoff::jsonb, word.declared, word.next_run_at,
        word.limit_key, word.singleton, word.debounce, word.quiet, 'active', clock.now, clock.now
    from clock, jsonb_to_record(:schedule::jsonb) as word (
        id uuid, tenant text, queue text, name text, payload text, priority smallint, timeout_ms bigint, max_retries integer,
        schedule_type text, cron_expr text, timezone text, interval_ms bigint, catch_up text, overlap text,
        ends_at timestamptz, schedule_id text, idempotency_key text, idempotency_scope text, backoff text, declared boolean,
        next_run_at timestamptz, limit_key text, singleton text, debounce text, quiet interval
    )
    on conflict do nothing
    returning id, tenant, schedule_id, created_at
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, to_state, subject_name)
    select created_at, id, tenant, 'schedule', 'active', schedule_id
    from born
)
select id
from born
