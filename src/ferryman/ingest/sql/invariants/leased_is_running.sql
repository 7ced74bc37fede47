-- A live run belongs to the claim that holds its task, and a held task has one.
select task.id, task.status, run.id as run
from ferryman.ingest_task as task
full join (
    select live.id, live.task_id, live.attempt, live.epoch
    from ferryman.ingest_run as live
    where live.leased_until is not null
) as run on run.task_id = task.id and run.attempt = task.attempt and run.epoch = task.epoch
where (task.leased_until is not null) <> (run.id is not null)
