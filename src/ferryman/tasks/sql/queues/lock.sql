-- The gate of each queue, locked: who holds it is alone with its limits until the commit. The row for all tenants stands for
-- those of single tenants too. In one order; and a gate that somebody else stands at is passed over, not waited for.
select queue.name
from ferryman.queues as queue
where queue.name = any(:queues::text[])
  and queue.tenant = '*'
order by queue.name
for no key update skip locked
