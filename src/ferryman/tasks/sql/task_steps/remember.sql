-- What steps came to, and children that were refused, of many tasks at once. The word of a stale holder is not written: the task's row is locked, so that no
-- other holder can come before this commits. A row that somebody else is writing is passed over; the sender asks again.
-- A repeat after a lost answer meets its own rows. The limit keeps the planner at one lookup a row (see turn.sql).
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select given.*
    from unnest(
        (select :tasks::uuid[]), (select :epochs::bigint[]), (select :kinds::text[]), (select :names::text[]),
        (select :nths::integer[]), (select :positions::integer[]), (select :states::text[]), (select :results::text[])
    ) as given (task, epoch, kind, name, nth, position, state, result)
    limit (select 1000000)
),
held as materialized (
    select word.*
    from word
    join ferryman.tasks as task on task.id = word.task
    where task.epoch = word.epoch
      and task.lease_owner = :owner
      and task.state = 'running'
    order by task.id
    for share of task skip locked
),
kept as (
    insert into ferryman.task_steps (task, kind, name, nth, position, state, result, at)
    select held.task, held.kind, held.name, held.nth, held.position, held.state, held.result::jsonb, clock.now
    from clock, held
    on conflict (task, kind, name, nth) do nothing
)
select distinct task
from held
