-- The latest word of a handler; a stale holder's word is not written. The fence alone decides: the last word of a handler may
-- come after its outcome, and a task keeps its epoch until it is claimed again. The limit keeps the planner at one lookup a
-- row (see turn.sql). It says itself how long it waits for a task that somebody holds (see task_logs/append.sql).
with hurried as materialized (
    select set_config('lock_timeout', '500ms', true)
)
insert into ferryman.task_progress (id, percent, message, at)
select word.id, word.percent, word.message, ferryman.clock()
from hurried, (
    select given.id, given.epoch, given.percent, given.message
    from unnest((select :ids::uuid[]), (select :epochs::bigint[]), (select :percents::smallint[]), (select :messages::text[]))
        as given (id, epoch, percent, message)
    limit (select 1000000)
) as word
join ferryman.tasks as task
  on task.id = word.id
 and task.epoch = word.epoch
order by word.id
on conflict (id) do update
set percent = excluded.percent, message = excluded.message, at = excluded.at
returning id
