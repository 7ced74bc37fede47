-- The story of one object.
select id, at, tenant, kind, subject, subject_name, from_state, to_state, attempt, reason_code, reason_message,
       data::text as data, ferryman.event_token(logged_at) as token
from ferryman.events
where subject = :subject
  and (:tenant::text is null or tenant = :tenant)
order by id
