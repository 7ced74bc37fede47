-- What became of a batch whose end was not answered.
select batch.id, batch.status, batch.run_id
from ferryman.ingest_batch as batch
where batch.id = :id
