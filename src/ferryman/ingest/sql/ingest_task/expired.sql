-- Tasks that still wait at their ends_at.
select task.id
from ferryman.ingest_task as task
where task.rank is not null
  and task.ends_at <= ferryman.clock()
order by task.ends_at
limit :limit
for update of task skip locked
