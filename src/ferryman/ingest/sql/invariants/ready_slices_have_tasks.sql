-- A slice is ready if and only if it has a task.
select slice.id, slice.status, task.id as task
from ferryman.ingest_slice as slice
left join ferryman.ingest_task as task on task.slice_id = slice.id
where (slice.status = 'READY') <> (task.id is not null)
