-- paused -> active
-- What it missed while it was paused is not made up for: somebody wanted it so.
with clock as materialized (
    select ferryman.clock() as now
),
moved as (
    update ferryman.schedules as schedule
    set state = 'active', next_run_at = :next_run_at, updated_at = clock.now
    from clock
    where schedule.id = :id
      and schedule.tenant = :tenant
      and schedule.state = 'paused'
    returning schedule.id, schedule.tenant, schedule.schedule_id
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name)
    select clock.now, moved.id, moved.tenant, 'schedule', 'paused', 'active', moved.schedule_id
    from moved, clock
)
select id
from moved
