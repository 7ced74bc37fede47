-- A page of the window (last_id, mark_id], if that is closed: every transaction older than its mark has ended.
with look as materialized (
    select pg_snapshot_xmax(seen) >= mark.xid
           and not exists (select from pg_snapshot_xip(seen) as open (xid) where open.xid < mark.xid) as closed
    from pg_current_snapshot() as seen, (select :mark_xid::text::xid8) as mark (xid)
)
select look.closed, event.id, event.at, event.tenant, event.kind, event.subject, event.subject_name, event.from_state,
       event.to_state, event.attempt, event.reason_code, event.reason_message, event.data
from look
left join lateral (
    select id, at, tenant, kind, subject, subject_name, from_state, to_state, attempt, reason_code, reason_message,
           data::text as data
    from ferryman.events
    where look.closed
      and id > :last_id
      and id <= :mark_id
      and (:tenant::text is null or tenant = :tenant)
      and (:subject::uuid is null or subject = :subject)
    order by id
    limit :limit
) as event on true
order by event.id
