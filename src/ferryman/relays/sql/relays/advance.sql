-- The place of a relay, stored after the events before it were published; renews the lease. Fenced by the claim, and by the place that
-- the holder read on from: a database that went back (a promoted standby, a restored backup) has another one. Where the place did not
-- go back, the last event that was published may be missing; then the place does not move.
with held as materialized (
    select relay.name
    from ferryman.relays as relay
    where relay.name = :name
      and relay.lease_owner = :owner
      and relay.epoch = :epoch
    for update
),
renewed as (
    update ferryman.relays as relay
    set leased_until = ferryman.clock() + :lease::interval
    from held
    where relay.name = held.name
)
update ferryman.consumers as consumer
set last_id = :last_id, mark_id = :mark_id, mark_xid = :mark_xid::text::xid8, updated_at = ferryman.clock()
from held
where consumer.name = held.name
  and consumer.last_id = :from_id
  and (:event_id::bigint is null
       or exists (select from ferryman.events as event where event.id = :event_id and event.logged_at = :logged_at::timestamptz))
returning consumer.last_id
