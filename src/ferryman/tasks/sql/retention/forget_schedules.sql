-- ended -> (nothing)
-- The tasks it fired stay for their own time, and name it still. A row that somebody holds is left for the next walk.
with gone as materialized (
    select schedule.id
    from ferryman.schedules as schedule
    where schedule.id = any(:ids::uuid[])
      and schedule.ended_at is not null
    order by schedule.id
    for update skip locked
)
delete from ferryman.schedules as schedule
using gone
where schedule.id = gone.id
returning schedule.id
