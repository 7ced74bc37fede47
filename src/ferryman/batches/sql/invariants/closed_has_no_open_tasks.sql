select batch.tenant, batch.id, batch.status, task.id as task_id, task.status as task_status
from ferryman.pmo_batches as batch
join ferryman.pmo_batch_tasks as task on task.batch_id = batch.id
where batch.finished_at is not null
  and task.finished_at is null
