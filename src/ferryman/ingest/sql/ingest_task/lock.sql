-- The task of a claim, locked in a statement of its own before its end is written. Its run may give birth to a batch at this
-- moment (a worker that drains hands back what still runs): a statement that waits for the lock would not see that batch, and
-- leave it open for good. Somebody else may hold it for long: nobody waits for that, and the end is written later.
with held as materialized (
    select task.id
    from ferryman.ingest_task as task
    where task.id = :id
    for update of task skip locked
)
select task.id, task.id in (select held.id from held) as held
from ferryman.ingest_task as task
where task.id = :id
