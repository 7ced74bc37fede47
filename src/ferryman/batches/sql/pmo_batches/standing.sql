-- What the tasks of running batches are; after the lock, in a statement of its own, so that it sees what others have written.
select batch.id, batch.fail_fast, task.statuses
from (select given.id from unnest((select :ids::uuid[])) as given (id) limit (select 1000000)) as word
join ferryman.pmo_batches as batch on batch.id = word.id
cross join lateral (
    select array_agg(distinct task.status) as statuses
    from ferryman.pmo_batch_tasks as task
    where task.batch_id = batch.id
    limit 1
) as task
where batch.status = 'running'
