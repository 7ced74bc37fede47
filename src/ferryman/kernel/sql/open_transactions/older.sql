-- Transactions of the whole server that have an id and are older than a time, the oldest first: no reader of the log passes a gap
-- while one of them is open. Insert takes a lock on the log that lasts as long as its transaction, so the locks show who wrote.
-- Without pg_monitor a role does not see when the transaction of another role began. Then its age is that of the oldest of the last
-- events written by a younger transaction: it is at least as old.
with open as materialized (
    select activity.pid, null::text as prepared, activity.backend_xid as xid, activity.xact_start as since, activity.application_name,
           activity.usename::text as role, activity.datname::text as database, host(activity.client_addr) as address,
           activity.state
    from pg_stat_activity as activity
    where activity.backend_xid is not null
      and activity.pid <> pg_backend_pid()
    union all
    select null, gid, transaction, prepared, null, owner::text, database::text, null, 'prepared'
    from pg_prepared_xacts
),
known as materialized (
    select open.*, coalesce(open.since, later.logged_at) as open_since
    from open
    left join lateral (
        select min(recent.logged_at) as logged_at
        from (select event.xid, event.logged_at from ferryman.events as event order by event.id desc limit 1000) as recent
        where age(recent.xid::xid) < age(open.xid)
    ) as later on open.since is null
)
select known.pid, known.prepared, known.application_name, known.role, known.database, known.address, known.state,
       extract(epoch from clock_timestamp() - known.open_since)::float8 as seconds, known.since is not null as exact,
       exists (
           select from pg_locks as own
           join pg_locks as lock on lock.virtualtransaction = own.virtualtransaction and lock.pid is not distinct from own.pid
           where own.locktype = 'transactionid'
             and own.transactionid = known.xid
             and own.mode = 'ExclusiveLock'
             and own.granted
             and lock.locktype = 'relation'
             and lock.relation = 'ferryman.events'::regclass
             and lock.mode = 'RowExclusiveLock'
             and lock.granted
       ) as wrote
from known
where known.open_since < clock_timestamp() - :older_than::interval
order by known.open_since
limit :limit
