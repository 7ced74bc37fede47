-- For how long somebody else holds the relay, in seconds; no row: nobody does.
select extract(epoch from relay.leased_until - ferryman.clock())::float8 as seconds
from ferryman.relays as relay
where relay.name = :name
  and relay.lease_owner <> :owner
  and relay.leased_until > ferryman.clock()
