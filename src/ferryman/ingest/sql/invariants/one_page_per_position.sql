-- One position of a slice has succeeded once.
select batch.slice_id, batch.before_token
from ferryman.ingest_batch as batch
where batch.status = 'SUCCEEDED'
group by batch.slice_id, batch.before_token
having count(*) > 1
