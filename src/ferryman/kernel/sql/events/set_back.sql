-- A consumer beyond the end of the log is of another history. It has read what was written before it moved last, so it resumes there.
update ferryman.consumers as consumer
set last_id = log.resume_id, mark_id = 0, mark_xid = '0'
from (
    select beyond.name, beyond.last_id as was,
           coalesce(
               (select event.id from ferryman.events as event
                where event.logged_at <= beyond.updated_at - :slack::interval
                order by event.id desc limit 1),
               (select min(event.id) - 1 from ferryman.events as event),
               0
           ) as resume_id
    from ferryman.consumers as beyond
    where beyond.name = :name
      and beyond.last_id > coalesce(pg_sequence_last_value('ferryman.events_id_seq'::regclass), 0)
      and beyond.last_id > coalesce((select max(event.id) from ferryman.events as event), 0)
    for update of beyond
) as log
where consumer.name = log.name
returning consumer.last_id, log.was
