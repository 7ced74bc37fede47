-- A page of the window (last_id, mark_id]: all of it if every transaction older than the mark has ended, else what comes
-- before the first gap. In a run of ids without a gap nothing is missing, whoever still writes.
with look as materialized (
    select pg_snapshot_xmax(seen) >= mark.xid
           and not exists (select from pg_snapshot_xip(seen) as open (xid) where open.xid < mark.xid) as closed
    from pg_current_snapshot() as seen, (select :mark_xid::text::xid8) as mark (xid)
),
safe as materialized (
    select look.closed, case when look.closed then :mark_id::bigint else coalesce(run.id, :last_id::bigint) end as id
    from look
    left join lateral (
        select max(next.id) as id
        from (
            select id, row_number() over (order by id) as number
            from ferryman.events
            where not look.closed
              and id > :last_id
              and id <= :mark_id
            order by id
            limit :limit
        ) as next
        where next.id = :last_id + next.number
    ) as run on true
)
select safe.closed, safe.id as safe_id, event.id, event.at, event.tenant, event.kind, event.subject, event.subject_name,
       event.from_state, event.to_state, event.attempt, event.reason_code, event.reason_message, event.data
from safe
left join lateral (
    select id, at, tenant, kind, subject, subject_name, from_state, to_state, attempt, reason_code, reason_message,
           data::text as data
    from ferryman.events
    where id > :last_id
      and id <= safe.id
      and (:tenant::text is null or tenant = :tenant)
      and (:subject::uuid is null or subject = :subject)
    order by id
    limit :limit
) as event on true
order by event.id
