-- One schedule, held until the end of the transaction: it neither fires nor moves meanwhile.
select schedule.id, coalesce(schedule.schedule_id, schedule.id::text) as schedule_id, schedule.tenant, schedule.name, schedule.queue,
       schedule.priority, schedule.schedule_type, schedule.cron_expr, schedule.timezone, schedule.interval_ms, schedule.catch_up,
       schedule.overlap, schedule.state, schedule.next_run_at, schedule.last_run_at, schedule.ends_at, schedule.fired,
       schedule.missed, schedule.skipped, schedule.timeout_ms, schedule.max_retries, schedule.idempotency_key,
       schedule.idempotency_scope, schedule.declared, schedule.created_at, schedule.updated_at, schedule.ended_at,
       schedule.payload, schedule.limit_key, schedule.singleton, schedule.debounce, schedule.quiet,
       ferryman.clock() as now
from ferryman.schedules as schedule
where schedule.tenant = :tenant
  and schedule.id = :id
for update
