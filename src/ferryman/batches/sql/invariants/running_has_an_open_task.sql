select batch.tenant, batch.id
from ferryman.pmo_batches as batch
where batch.finished_at is null
  and not exists (select from ferryman.pmo_batch_tasks as task where task.batch_id = batch.id and task.finished_at is null)
