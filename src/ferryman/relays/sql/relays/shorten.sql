-- As of tasks (tasks/shorten.sql): a lease of a time before the clock was set back ends one lease from now, unless its holder lives.
with term as materialized (
    select ferryman.clock() as now,
           greatest(:lease::interval,
                    (select max((worker.settings ->> 'lease_seconds')::float8) * interval '1 s' from ferryman.workers as worker)) as lease
),
far as materialized (
    select relay.name
    from ferryman.relays as relay
    where relay.leased_until > (select term.now + 2 * term.lease from term)
    order by relay.name
    limit :limit
    for update of relay skip locked
)
update ferryman.relays as relay
set leased_until = term.now + term.lease
from far, term
where relay.name = far.name
returning relay.name as id
