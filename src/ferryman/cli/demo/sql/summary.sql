-- What the story left behind, as the tables tell it.
select (select jsonb_object_agg(state, count)::text
        from (select state, count(*) as count from ferryman.tasks group by state) as each) as states,
       (select jsonb_object_agg(status, count)::text
        from (select lower(status) as status, count(*) as count from ferryman.command_inbox group by status) as each) as commands,
       (select jsonb_object_agg(turn_status, count)::text
        from (select turn_status, count(*) as count from ferryman.agent_inbox
              where turn_status is not null group by turn_status) as each) as turns,
       (select jsonb_object_agg(status, count)::text
        from (select status, count(*) as count from ferryman.pmo_batches group by status) as each) as batches,
       (select jsonb_object_agg(status, count)::text
        from (select lower(status) as status, count(*) as count from ferryman.ingest_task group by status) as each) as slices,
       (select coalesce(sum(record_count), 0)::bigint from ferryman.ingest_batch where status = 'SUCCEEDED') as records,
       (select count(*) from ferryman.bounds) as live,
       (select count(*) from ferryman.events) as events,
       (select count(*) from ferryman.events
        where from_state = 'running' and to_state = 'ready' and reason_code is not null) as retries,
       (select count(*) from ferryman.events
        where from_state = 'running' and to_state = 'ready' and reason_message = 'lease_expired') as lost_leases
