-- The calls of children that are about to be born in the same transaction. Fenced like a step: the parent's row is locked, and
-- so a parent that has ended bears none.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select given.*
    from unnest(
        (select :tasks::uuid[]), (select :epochs::bigint[]), (select :names::text[]), (select :nths::integer[]),
        (select :positions::integer[]), (select :children::uuid[])
    ) as given (task, epoch, name, nth, position, child)
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
    insert into ferryman.task_steps (task, kind, name, nth, position, child, state, at)
    select held.task, 'child', held.name, held.nth, held.position, held.child, 'open', clock.now
    from clock, held
    on conflict (task, kind, name, nth) do nothing
)
select distinct task
from held
