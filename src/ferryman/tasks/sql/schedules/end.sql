-- active | paused -> ended
with clock as materialized (
    select ferryman.clock() as now
),
held as materialized (
    select schedule.id, schedule.state
    from ferryman.schedules as schedule
    where schedule.id = :id
      and schedule.tenant = :tenant
      and schedule.state in ('active', 'paused')
    for update
),
moved as (
    update ferryman.schedules as schedule
    set state = 'ended', ended_at = clock.now, next_run_at = null, updated_at = clock.now
    from clock, held
    where schedule.id = held.id
    returning schedule.id, schedule.tenant, schedule.schedule_id, held.state as from_state
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name, reason_message)
    select clock.now, moved.id, moved.tenant, 'schedule', moved.from_state, 'ended', moved.schedule_id, :reason::text
    from moved, clock
)
select id
from moved
