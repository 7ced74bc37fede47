-- Takes the relay if nobody holds it, or takes it anew; no row back: somebody does.
insert into ferryman.relays as relay (name, epoch, lease_owner, leased_until)
values (:name, 1, :owner, ferryman.clock() + :lease::interval)
on conflict (name) do update
set epoch = relay.epoch + 1, lease_owner = excluded.lease_owner, leased_until = excluded.leased_until
where relay.leased_until is null
   or relay.leased_until <= ferryman.clock()
   or relay.lease_owner = excluded.lease_owner
returning epoch
