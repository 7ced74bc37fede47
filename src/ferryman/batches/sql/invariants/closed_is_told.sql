select batch.tenant, batch.id, batch.status, batch.finished_at, batch.parent_told_at
from ferryman.pmo_batches as batch
where (batch.finished_at is null) <> (batch.parent_told_at is null)
