-- Events that nobody will take. A row that somebody holds is left for the next walk.
with gone as materialized (
    select signal.id
    from ferryman.task_signals as signal
    where signal.id = any(:ids::bigint[])
    order by signal.id
    for update skip locked
)
delete from ferryman.task_signals as signal
using gone
where signal.id = gone.id
returning signal.id
