-- A re-sliced slice stays ready and names its successors.
update ferryman.ingest_slice
set resliced_by = :successors::uuid[], updated_at = ferryman.clock()
where id = :id
  and resliced_by is null
returning id
