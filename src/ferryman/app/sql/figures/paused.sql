-- Which queues are paused, for whom and since when.
select queue.name, queue.tenant, queue.paused_at
from ferryman.queues as queue
where queue.paused_at is not null
order by queue.name, queue.tenant
limit 1000
