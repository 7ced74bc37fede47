-- How far each reader of the log is from its end, and who holds it.
select consumer.name, consumer.last_id, greatest(0, log.end_id - consumer.last_id) as behind,
       coalesce(extract(epoch from clock_timestamp() - next.logged_at), 0)::float8 as behind_seconds,
       consumer.updated_at, relay.lease_owner, relay.leased_until
from ferryman.consumers as consumer
cross join (
    select case when is_called then pg_sequence_last_value('ferryman.events_id_seq'::regclass) else 0 end as end_id
    from ferryman.events_id_seq
) as log
left join ferryman.relays as relay on relay.name = consumer.name
left join lateral (
    select event.logged_at
    from ferryman.events as event
    where event.id > consumer.last_id
    order by event.id
    limit 1
) as next on true
order by consumer.name
