-- A page after last_id: up to mark_id if every transaction older than the mark has ended, else up to the first gap. In a run
-- of ids without a gap nothing is missing, whoever still writes.
-- The upper bound stands outside the limited read: a range with two ends looks so small to the planner that it sorts it whole
-- for each page, where one end lets it walk the index.
with look as materialized (
    select pg_snapshot_xmax(seen) >= mark.xid
           and not exists (select from pg_snapshot_xip(seen) as open (xid) where open.xid < mark.xid) as closed
    from pg_current_snapshot() as seen, (select :mark_xid::text::xid8) as mark (xid)
),
safe as materialized (
    select look.closed, case when look.closed then :mark_id::bigint else coalesce(run.id, :last_id::bigint) end as id
    from look
    left join lateral (
        select max(numbered.id) as id
        from (
            select next.id, row_number() over (order by next.id) as number
            from (select id from ferryman.events where id > :last_id order by id limit :limit) as next
            where not look.closed
        ) as numbered
        where numbered.id = :last_id + numbered.number
    ) as run on true
)
select safe.closed, safe.id as safe_id, event.id, event.at, event.tenant, event.kind, event.subject, event.subject_name,
       event.from_state, event.to_state, event.attempt, event.reason_code, event.reason_message, event.data,
       ferryman.event_token(event.logged_at) as token
from safe
left join (
    select id, at, tenant, kind, subject, subject_name, from_state, to_state, attempt, reason_code, reason_message,
           data::text as data, logged_at
    from ferryman.events
    where id > :last_id
      and (:tenant::text is null or tenant = :tenant)
      and (:subject::uuid is null or subject = :subject)
    order by id
    limit :limit
) as event on event.id <= safe.id
order by event.id
