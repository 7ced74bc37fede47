-- A pending task is called again before its time: it waits anew, with the newest payload. No move; ends_at stays its bound.
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
    set payload = word.payload::jsonb, due_at = least(clock.now + word.quiet, task.ends_at),
        wake_at = least(clock.now + word.quiet, task.ends_at), updated_at = clock.now
    from clock, word
    where task.id = word.id
      and task.state = 'pending'
    returning task.id, task.due_at, task.updated_at
)
select id, due_at, updated_at
from moved
