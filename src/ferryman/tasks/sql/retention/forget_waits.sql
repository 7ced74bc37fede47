-- What a task does not wait for any more. Its epoch is compared: a task may have parked again since it was found. A row that
-- somebody holds is left for the next walk.
with gone as materialized (
    select wait.task
    from unnest((select :ids::uuid[]), (select :epochs::bigint[])) as word (id, epoch)
    cross join lateral (
        select each.task
        from ferryman.task_waits as each
        where each.task = word.id
          and each.epoch = word.epoch
        for update skip locked
    ) as wait
)
delete from ferryman.task_waits as wait
using gone
where wait.task = gone.task
returning wait.task
