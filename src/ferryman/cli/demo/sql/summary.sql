-- What the story left behind, as the tables tell it.
select (select jsonb_object_agg(state, count)::text
        from (select state, count(*) as count from ferryman.tasks group by state) as each) as states,
       (select count(*) from ferryman.events) as events,
       (select count(*) from ferryman.events
        where from_state = 'running' and to_state = 'ready' and reason_code is not null) as retries,
       (select count(*) from ferryman.events
        where from_state = 'running' and to_state = 'ready' and reason_message = 'lease_expired') as lost_leases
