-- As of tasks (tasks/shorten.sql): a lease of a time before the clock was set back ends one lease from now, and that of its run,
-- unless its holder lives and renews it.
with term as materialized (
    select ferryman.clock() as now,
           greatest(:lease::interval,
                    (select max((worker.settings ->> 'ingest_lease_seconds')::float8) * interval '1 s' from ferryman.workers as worker)) as lease
),
far as materialized (
    select task.id
    from ferryman.ingest_task as task
    where task.leased_until > (select term.now + 2 * term.lease from term)
    order by task.leased_until
    limit :limit
    for update of task skip locked
),
moved as (
    update ferryman.ingest_task as task
    set leased_until = term.now + term.lease
    from far, term
    where task.id = far.id
    returning task.id, task.attempt, task.leased_until
),
run as (
    update ferryman.ingest_run as run
    set leased_until = moved.leased_until
    from moved
    where run.task_id = moved.id
      and run.attempt = moved.attempt
      and run.status in ('PLANNED', 'RUNNING')
)
select moved.id
from moved
