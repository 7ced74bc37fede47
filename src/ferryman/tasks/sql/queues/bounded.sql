-- Which queues bound how much of them is live: creates into these look before they are stored.
select distinct queue.name
from ferryman.queues as queue
where queue.max_depth is not null
