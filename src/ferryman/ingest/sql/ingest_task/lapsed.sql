-- Tasks whose holder is gone: the lease has passed, or a batch is not done in its time.
with clock as materialized (
    select ferryman.clock() as now
),
late as materialized (
    select task.id
    from ferryman.ingest_task as task, clock
    where task.leased_until > '-infinity'
      and task.leased_until <= clock.now
    union
    select batch.task_id
    from ferryman.ingest_batch as batch, clock
    where batch.ends_by > '-infinity'
      and batch.ends_by <= clock.now
)
select task.id, task.epoch, task.lease_owner, task.tenant, task.source, task.max_claims, task.forgiven
from late
join ferryman.ingest_task as task on task.id = late.id
where task.leased_until is not null
order by task.id
-- Counted after those are passed over that somebody else holds: they must not fill the set.
limit :limit
for update of task skip locked
