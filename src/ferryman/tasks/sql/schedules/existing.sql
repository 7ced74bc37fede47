-- What a create met: by its own id, by its name, by its key and scope. What has ended is met by its id alone.
select met.hit, schedule.id, coalesce(schedule.schedule_id, schedule.id::text) as schedule_id, schedule.tenant, schedule.name, schedule.queue,
       schedule.priority, schedule.schedule_type, schedule.cron_expr, schedule.timezone, schedule.interval_ms, schedule.catch_up,
       schedule.overlap, schedule.state, schedule.next_run_at, schedule.last_run_at, schedule.ends_at, schedule.fired,
       schedule.missed, schedule.skipped, schedule.timeout_ms, schedule.max_retries, schedule.idempotency_key,
       schedule.idempotency_scope, schedule.declared, schedule.created_at, schedule.updated_at, schedule.ended_at,
       schedule.payload
from (
    select 'schedule_id' as hit, id
    from ferryman.schedules
    where tenant = :tenant
      and id = :id
    union all
    select 'schedule_id', id
    from ferryman.schedules
    where tenant = :tenant
      and schedule_id = :schedule_id
      and ended_at is null
    union all
    select 'idempotency_key', id
    from ferryman.schedules
    where tenant = :tenant
      and idempotency_key = :key
      and idempotency_scope is not distinct from :scope
      and ended_at is null
) as met
join ferryman.schedules as schedule on schedule.id = met.id
