-- The last event up to a number; with a time, the last that was written by then.
select id, ferryman.event_token(logged_at) as token
from ferryman.events
where id <= :id
  and (:before::timestamptz is null or logged_at <= :before)
order by id desc
limit 1
