-- The queues of a set of creates that bound how much of them is live, locked in one order: who holds them counts alone.
select queue.name, queue.tenant, queue.max_depth, queue.at_limit
from ferryman.queues as queue
where queue.name = any(:queues::text[])
  and exists (select from ferryman.queues as bounded where bounded.name = queue.name and bounded.max_depth is not null)
order by queue.name collate "C", queue.tenant <> '*', queue.tenant collate "C"
for no key update
