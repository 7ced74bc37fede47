-- The log of a tenant, the newest first: a page before an event. So many ids are looked at and no more, however few of them are
-- the tenant's; reached is where the look ended, so that the next page can go on from there.
with looked as materialized (
    select id, at, tenant, kind, subject, subject_name, from_state, to_state, attempt, reason_code, reason_message,
           data::text as data, ferryman.event_token(logged_at) as token
    from ferryman.events
    where id < :before
    order by id desc
    limit :reach
),
found as materialized (
    select looked.id, looked.at, looked.tenant, looked.kind, looked.subject, looked.subject_name, looked.from_state,
           looked.to_state, looked.attempt, looked.reason_code, looked.reason_message, looked.data, looked.token
    from looked
    where looked.tenant = :tenant
      and (:kind::text is null or looked.kind = :kind or starts_with(looked.kind, :kind || '.') or starts_with(looked.kind, :kind || '_'))
      and (:codes::text[] is null or looked.reason_code = any(:codes))
    order by looked.id desc
    limit :limit
)
select walk.reached, walk.looked, found.id, found.at, found.tenant, found.kind, found.subject, found.subject_name,
       found.from_state, found.to_state, found.attempt, found.reason_code, found.reason_message, found.data,
       found.token
from (select min(looked.id) as reached, count(*)::integer as looked from looked) as walk
left join found on true
order by found.id desc
