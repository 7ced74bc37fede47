-- A pending task is called again before its time: it waits anew, with the newest payload. No move; ends_at stays its bound: a
-- wait that would outlast it is not begun, and the task runs when it would have run, with the newest payload.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select given.id, given.payload, given.quiet
    from unnest((select :ids::uuid[]), (select :payloads::text[]), (select :quiets::interval[])) as given (id, payload, quiet)
    order by given.id
    limit (select 1000000)
),
moved as (
    update ferryman.tasks as task
    set payload = word.payload::jsonb, updated_at = clock.now,
        due_at = case when clock.now + word.quiet < task.ends_at then clock.now + word.quiet else task.due_at end,
        wake_at = case when clock.now + word.quiet < task.ends_at then clock.now + word.quiet else task.wake_at end
    from clock, word
    where task.id = word.id
      and task.state = 'pending'
    returning task.id, task.due_at, task.updated_at
)
select id, due_at, updated_at
from moved
