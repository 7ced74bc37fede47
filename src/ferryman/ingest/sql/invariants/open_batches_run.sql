-- A batch that runs belongs to a run that runs.
select batch.id, run.status
from ferryman.ingest_batch as batch
join ferryman.ingest_run as run on run.id = batch.run_id
where batch.ends_by is not null
  and run.status <> 'RUNNING'
