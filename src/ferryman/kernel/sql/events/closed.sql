-- Whether every transaction older than a mark has ended: what is missing up to its end then was rolled back. And whether this
-- cluster has come as far as the mark, which has been committed: one that has not is another than it was made in.
select pg_snapshot_xmax(seen) > mark.xid as reached,
       pg_snapshot_xmax(seen) >= mark.xid
       and not exists (select from pg_snapshot_xip(seen) as open (xid) where open.xid < mark.xid) as closed
from pg_current_snapshot() as seen, (select :mark_xid::text::xid8) as mark (xid)
