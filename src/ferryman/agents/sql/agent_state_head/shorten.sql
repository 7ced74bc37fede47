-- As of tasks (tasks/shorten.sql): a lease of a time before the clock was set back ends one lease from now, unless its holder lives.
with term as materialized (
    select ferryman.clock() as now,
           greatest(:lease::interval,
                    (select max((worker.settings ->> 'lease_seconds')::float8) * interval '1 s' from ferryman.workers as worker)) as lease
),
far as materialized (
    select head.id
    from ferryman.agent_state_head as head
    where head.leased_until > (select term.now + 2 * term.lease from term)
    order by head.leased_until
    limit :limit
    for update of head skip locked
)
update ferryman.agent_state_head as head
set leased_until = term.now + term.lease
from far, term
where head.id = far.id
  and head.leased_until > term.now + 2 * term.lease
returning head.active_agent_turn_id as id
