-- W10: running batches past their deadline.
select batch.id
from (select ferryman.clock() as now) as clock, ferryman.pmo_batches as batch
where batch.finished_at is null
  and batch.deadline_at <= clock.now
order by batch.deadline_at
limit :limit
