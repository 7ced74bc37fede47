-- C9, of one tenant.
select task_type, status, count, mean_seconds, p50_seconds, p95_seconds, max_seconds, latest_created_at, latest_completed_at
from ferryman.async_task_statistics
where tenant = :tenant
order by task_type, status
