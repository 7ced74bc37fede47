-- Sources with slices to derive and room in their line.
select slice.tenant, slice.source
from ferryman.ingest_slice as slice
where slice.status = 'PENDING'
  and slice.ends_at > ferryman.clock()
  and (select count(*)
       from ferryman.ingest_task as task
       where task.tenant = slice.tenant
         and task.source = slice.source
         and task.rank is not null) < :most
group by slice.tenant, slice.source
order by slice.tenant, slice.source
limit :limit
