-- How many tasks of each status these batches have.
select task.batch_id, task.status, count(*) as count
from (
    select given.id
    from unnest((select :batches::uuid[])) as given (id)
    limit (select 1000000)
) as word
join ferryman.pmo_batch_tasks as task on task.batch_id = word.id
where task.tenant = :tenant
group by task.batch_id, task.status
