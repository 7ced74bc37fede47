-- The queues of a set of creates that bound how much of them is live: who holds their locks, taken in one order, counts alone.
-- An advisory lock, not the queue's row: that is its gate, and a caller's open transaction must not keep it shut.
-- Whoever counts after the lock must see what was committed before it, which a repeatable read transaction does not.
select queue.name, queue.tenant, queue.max_depth, queue.at_limit, current_setting('transaction_isolation') as isolation,
       pg_advisory_xact_lock(hashtextextended('ferryman.depth' || chr(31) || queue.name, 0)) as locked
from (
    select each.name, each.tenant, each.max_depth, each.at_limit
    from ferryman.queues as each
    where each.name = any(:queues::text[])
      and exists (select from ferryman.queues as bounded where bounded.name = each.name and bounded.max_depth is not null)
    order by each.name collate "C"
    offset 0
) as queue
