-- Indexes of our schema that every write pays for and no read uses: their making was broken off, or is under way. A leftover is one
-- that nobody wants: a rebuild that was broken off leaves such names, and a drop that was broken off leaves what is dead.
select format('%I.%I', :schema::text, index_.relname) as name, leftover.is as leftover,
       exists (select from pg_stat_progress_create_index as making where making.datname = current_database() and making.relid = pg_index.indrelid) as under_way
from pg_index
join pg_class as index_ on index_.oid = pg_index.indexrelid
cross join lateral (select not pg_index.indislive or index_.relname ~ '_cc(new|old)[0-9]*$' as is) as leftover
where index_.relnamespace = to_regnamespace(:schema::text)
  and not pg_index.indisvalid
  and index_.relkind = 'i'
order by leftover desc, name
