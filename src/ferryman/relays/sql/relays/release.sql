-- Hands the relay back, so that another need not wait for the lease to end.
update ferryman.relays as relay
set lease_owner = null, leased_until = null
where relay.name = :name
  and relay.lease_owner = :owner
  and relay.epoch = :epoch
returning relay.name
