-- K10: the sequence of the log is behind only where the log has a higher id, or is empty and readers are past the sequence. Where the
-- log has rows and a reader is past all of them, its position is wrong, and not the sequence: the rows must keep their ids.
create or replace view ferryman.sequences as
select 'events'::text as table_name,
       (select case when is_called then pg_sequence_last_value('ferryman.events_id_seq'::regclass) else 0 end from ferryman.events_id_seq) as last_id,
       coalesce((select max(event.id) from ferryman.events as event),
                greatest((select max(greatest(consumer.last_id, consumer.mark_id)) from ferryman.consumers as consumer),
                         (select max(webhook.after_id) from ferryman.webhooks as webhook)), 0) as needed_id
union all
select 'task_logs',
       (select case when is_called then pg_sequence_last_value('ferryman.task_logs_id_seq'::regclass) else 0 end from ferryman.task_logs_id_seq),
       coalesce((select max(log.id) from ferryman.task_logs as log), 0)
union all
select 'task_signals',
       (select case when is_called then pg_sequence_last_value('ferryman.task_signals_id_seq'::regclass) else 0 end from ferryman.task_signals_id_seq),
       coalesce((select max(signal.id) from ferryman.task_signals as signal), 0)
union all
select 'ingest_cursor_event',
       (select case when is_called then pg_sequence_last_value('ferryman.ingest_cursor_event_seq_seq'::regclass) else 0 end from ferryman.ingest_cursor_event_seq_seq),
       coalesce((select max(newest.seq)
                 from (select event.seq from ferryman.ingest_cursor_event as event order by event.id desc limit 1000) as newest), 0);
