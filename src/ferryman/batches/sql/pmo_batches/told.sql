-- The parents of closed batches have their results; in the transaction that gives them.
update ferryman.pmo_batches as batch
set parent_told_at = ferryman.clock()
where batch.id = any(:ids::uuid[])
  and batch.status <> 'running'
  and batch.parent_told_at is null
returning batch.id
