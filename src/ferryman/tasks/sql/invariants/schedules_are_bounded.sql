select schedule.id, schedule.state
from ferryman.schedules as schedule
where schedule.state = 'active'
  and not exists (
      select from ferryman.bounds as bound
      where bound.domain = 'schedule' and bound.id = schedule.id and isfinite(bound.ends_by))
