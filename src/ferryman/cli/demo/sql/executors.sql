-- The process that holds the most slices now.
select worker.pid, count(*) as slices
from ferryman.ingest_task as task
join ferryman.workers as worker on worker.boot_id = task.lease_owner
where task.leased_until is not null
group by worker.pid
order by slices desc, worker.pid
limit 1
