select batch.tenant, batch.id, batch.task_count, made.count
from ferryman.pmo_batches as batch
cross join lateral (
    select count(*) as count, max(task.task_index) as last,
           bool_and((task.metadata ->> 'task_index')::integer = task.task_index) as agree
    from ferryman.pmo_batch_tasks as task
    where task.batch_id = batch.id
) as made
where made.count <> batch.task_count
   or made.last <> batch.task_count - 1
   or not made.agree
