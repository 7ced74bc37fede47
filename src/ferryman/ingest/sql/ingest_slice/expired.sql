-- Slices that were not derived in their time.
select slice.id
from ferryman.ingest_slice as slice
where slice.status = 'PENDING'
  and slice.ends_at <= ferryman.clock()
order by slice.ends_at
limit :limit
for update of slice skip locked
