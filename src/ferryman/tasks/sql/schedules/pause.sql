-- active -> paused
with clock as materialized (
    select ferryman.clock() as now
),
moved as (
    update ferryman.schedules as schedule
    set state = 'paused', next_run_at = null, updated_at = clock.now
    from clock
    where schedule.id = :id
      and schedule.tenant = :tenant
      and schedule.state = 'active'
    returning schedule.id, schedule.tenant, schedule.schedule_id
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name, reason_message)
    select clock.now, moved.id, moved.tenant, 'schedule', 'active', 'paused', moved.schedule_id, :reason::text
    from moved, clock
)
select id
from moved
