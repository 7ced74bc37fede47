-- What the role of this connection lacks in the schema. Partitions are reached through their parents.
with space as materialized (
    select each.oid, each.nspowner from pg_catalog.pg_namespace as each where each.nspname = :schema
),
things as materialized (
    select class.oid, class.relname as name, class.relkind, class.relowner
    from space
    join pg_catalog.pg_class as class on class.relnamespace = space.oid
    where class.relkind in ('r', 'p', 'v', 'S')
      and not class.relispartition
),
wanted as materialized (
    select things.name, asked.privilege,
           case when things.relkind = 'S' then has_sequence_privilege(things.oid, 'SELECT')
                else has_table_privilege(things.oid, asked.privilege) end as granted
    from things
    cross join (values ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) as asked (privilege)
    where asked.privilege = 'SELECT'
       or (things.relkind in ('r', 'p') and things.name <> 'migrations'
           -- Rows of these are never changed.
           and not (asked.privilege in ('UPDATE', 'DELETE') and things.name in ('events', 'cards', 'ingest_cursor_event')))
)
select quote_ident(current_user) as role, quote_ident(pg_get_userbyid(space.nspowner)) as owner, has_schema_privilege(space.oid, 'USAGE') as uses,
       has_database_privilege(current_database(), 'CREATE') as creates,
       (select quote_ident(pg_get_userbyid(datdba)) from pg_catalog.pg_database where datname = current_database()) as host,
       (select coalesce(bool_and(pg_has_role(things.relowner, 'USAGE')), true) from things) as owns,
       current_setting('transaction_read_only')::boolean and not pg_is_in_recovery() as read_only,
       (select count(*) from wanted where privilege <> 'SELECT' and granted) as writes,
       array(select wanted.privilege || ' on ' || string_agg(wanted.name, ', ' order by wanted.name)
             from wanted
             where not wanted.granted
             group by wanted.privilege
             order by wanted.privilege = 'SELECT' desc, wanted.privilege) as lacks
from (values (1)) as always (one)
left join space on true
