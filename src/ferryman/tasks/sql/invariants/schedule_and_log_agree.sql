select schedule.id, schedule.state, last.to_state as logged_state
from ferryman.schedules as schedule
cross join lateral (
    select event.to_state
    from ferryman.events as event
    where event.subject = schedule.id
      and event.kind = 'schedule'
      and event.to_state is not null
    order by event.id desc
    limit 1
) as last
where schedule.state <> last.to_state
