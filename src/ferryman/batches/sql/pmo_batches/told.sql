-- The parents of closed batches have their results; in the transaction that gives them.
update ferryman.pmo_batches as batch
set parent_told_at = ferryman.clock()
from (select given.id from unnest((select :ids::uuid[])) as given (id) limit (select 1000000)) as word
where batch.id = word.id
  and batch.status <> 'running'
  and batch.parent_told_at is null
returning batch.id
