-- (nothing) -> active, or as it is
-- What stands in the code is brought up to date: what is there keeps its state, and its next_run_at while its rhythm is the
-- same. In the order of the names, so that workers that start together wait for each other in one order.
with clock as materialized (
    select ferryman.clock() as now
),
word as (
    select given.*
    from jsonb_to_recordset(:schedules::jsonb) as given (
        id uuid, tenant text, queue text, name text, payload text, priority smallint, timeout_ms bigint, max_retries integer,
        schedule_type text, cron_expr text, timezone text, interval_ms bigint, catch_up text, overlap text,
        ends_at timestamptz, schedule_id text, backoff text, next_run_at timestamptz, limit_key text,
        singleton text, debounce text, quiet interval
    )
    order by given.tenant, given.schedule_id
),
written as (
    insert into ferryman.schedules as schedule (
        id, tenant, queue, name, payload, priority, timeout_ms, max_retries, schedule_type, cron_expr, timezone, interval_ms,
        catch_up, overlap, ends_at, schedule_id, backoff, declared, next_run_at, limit_key, singleton, debounce, quiet,
        state, created_at, updated_at
    )
    select word.id, word.tenant, word.queue, word.name, word.payload::jsonb, word.priority, word.timeout_ms, word.max_retries,
        word.schedule_type, word.cron_expr, word.timezone, word.interval_ms, word.catch_up, word.overlap, word.ends_at,
        word.schedule_id, word.backoff::jsonb, true, word.next_run_at, word.limit_key, word.singleton, word.debounce, word.quiet, 'active', clock.now, clock.now
    from word, clock
    on conflict (tenant, schedule_id) where schedule_id is not null and ended_at is null
    do update set
        queue = excluded.queue, name = excluded.name, payload = excluded.payload, priority = excluded.priority,
        timeout_ms = excluded.timeout_ms, max_retries = excluded.max_retries, schedule_type = excluded.schedule_type,
        cron_expr = excluded.cron_expr, timezone = excluded.timezone, interval_ms = excluded.interval_ms,
        catch_up = excluded.catch_up, overlap = excluded.overlap, ends_at = excluded.ends_at, backoff = excluded.backoff,
        limit_key = excluded.limit_key, singleton = excluded.singleton, debounce = excluded.debounce, quiet = excluded.quiet,
        declared = true, updated_at = excluded.updated_at,
        next_run_at = case
            when schedule.next_run_at is null then null
            when (schedule.cron_expr, schedule.timezone, schedule.interval_ms)
                 is distinct from (excluded.cron_expr, excluded.timezone, excluded.interval_ms) then excluded.next_run_at
            else schedule.next_run_at
        end
    where (schedule.queue, schedule.name, schedule.payload, schedule.priority, schedule.timeout_ms, schedule.max_retries,
           schedule.schedule_type, schedule.cron_expr, schedule.timezone, schedule.interval_ms, schedule.catch_up,
           schedule.overlap, schedule.ends_at, schedule.backoff, schedule.declared, schedule.limit_key, schedule.singleton,
           schedule.debounce, schedule.quiet)
          is distinct from
          (excluded.queue, excluded.name, excluded.payload, excluded.priority, excluded.timeout_ms, excluded.max_retries,
           excluded.schedule_type, excluded.cron_expr, excluded.timezone, excluded.interval_ms, excluded.catch_up,
           excluded.overlap, excluded.ends_at, excluded.backoff, true, excluded.limit_key, excluded.singleton,
           excluded.debounce, excluded.quiet)
    returning id, tenant, schedule_id, updated_at, created_at = updated_at as born
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, to_state, subject_name, data)
    select updated_at, id, tenant, 'schedule', case when born then 'active' end, schedule_id,
           case when not born then '{"changed": true}'::jsonb end
    from written
)
select id, schedule_id, born
from written
