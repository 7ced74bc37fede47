-- How many tasks of ingestion wait and run, by source; and of those that run the most often leased.
select task.source, task.status, count(*) as count, max(task.lease_count) as leased
from ferryman.ingest_task as task
where task.rank is not null
   or task.leased_until is not null
group by task.source, task.status
order by task.source, task.status
