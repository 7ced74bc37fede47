-- As of tasks (tasks/shorten.sql): a lease of a time before the clock was set back ends one lease from now, and the delivery is due
-- then. A call takes less than its lease, so whoever lives is done by then.
with term as materialized (
    select ferryman.clock() as now,
           greatest(:lease::interval,
                    (select max((worker.settings ->> 'delivery_lease_seconds')::float8) * interval '1 s' from ferryman.workers as worker)) as lease
),
far as materialized (
    select delivery.id
    from ferryman.webhook_deliveries as delivery
    where delivery.leased_until > (select term.now + 2 * term.lease from term)
    order by delivery.id
    limit :limit
    for update of delivery skip locked
)
update ferryman.webhook_deliveries as delivery
set leased_until = term.now + term.lease, next_at = term.now + term.lease
from far, term
where delivery.id = far.id
returning delivery.id
