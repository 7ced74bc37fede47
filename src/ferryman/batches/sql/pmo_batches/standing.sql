-- What the tasks of running batches are; after the lock, in a statement of its own, so that it sees what others have written.
select batch.id, batch.fail_fast, array_agg(distinct task.status) as statuses
from unnest((select :ids::uuid[])) as given (id)
join ferryman.pmo_batches as batch on batch.id = given.id
join ferryman.pmo_batch_tasks as task on task.batch_id = batch.id
where batch.status = 'running'
group by batch.id, batch.fail_fast
