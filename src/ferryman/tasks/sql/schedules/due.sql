-- Which schedules are due, held until the end of the transaction; the others who look pass them over.
with clock as materialized (
    select ferryman.clock() as now
)
select schedule.id, schedule.next_run_at, schedule.schedule_type, schedule.cron_expr, schedule.timezone, schedule.interval_ms,
       schedule.catch_up, schedule.overlap, schedule.ends_at, schedule.tenant, schedule.queue, schedule.name, schedule.priority,
       schedule.timeout_ms, schedule.max_retries, schedule.limit_key, schedule.singleton, schedule.debounce, schedule.quiet,
       -- Wanted by a call that is put off, and by nobody else.
       case when schedule.debounce is not null then schedule.payload end as payload,
       clock.now
from ferryman.schedules as schedule, clock
where schedule.next_run_at <= (select now from clock)
  and schedule.id <> all(:aside::uuid[])
order by schedule.next_run_at
limit :limit
for update of schedule skip locked
