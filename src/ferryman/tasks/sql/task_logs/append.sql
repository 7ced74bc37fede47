-- What handlers said; a line of a stale holder is not written, nor one of a task that is gone. The limit keeps the planner
-- at one lookup a row (see turn.sql). By id: the foreign key locks the tasks, in the order in which everybody does.
-- Said in the statement, how long it waits for one that somebody holds costs no trip, and a pooler passes it on.
with hurried as materialized (
    select set_config('lock_timeout', '500ms', true)
)
insert into ferryman.task_logs (task, attempt, at, level, message)
select word.id, word.attempt, ferryman.clock(), word.level, word.message
from hurried, (
    select given.id, given.epoch, given.attempt, given.level, given.message, given.nth
    from unnest(
        (select :ids::uuid[]), (select :epochs::bigint[]), (select :attempts::integer[]), (select :levels::text[]),
        (select :messages::text[])
    ) with ordinality as given (id, epoch, attempt, level, message, nth)
    limit (select 1000000)
) as word
join ferryman.tasks as task
  on task.id = word.id
 and task.epoch = word.epoch
order by word.id, word.nth
returning id
