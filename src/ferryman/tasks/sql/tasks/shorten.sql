-- A lease that lies further ahead than twice the longest that anybody works with is of a time before the clock was set back: it ends
-- one lease from now, unless its holder lives and renews it. What a dead one held would stay held for as long as the clock was set back.
with term as materialized (
    select ferryman.clock() as now,
           greatest(:lease::interval,
                    (select max((worker.settings ->> 'lease_seconds')::float8) * interval '1 s' from ferryman.workers as worker)) as lease
),
far as materialized (
    select task.id
    from ferryman.tasks as task
    where task.leased_until > (select term.now + 2 * term.lease from term)
    order by task.leased_until
    limit :limit
    for update of task skip locked
)
update ferryman.tasks as task
set leased_until = term.now + term.lease
from far, term
where task.id = far.id
returning task.id
