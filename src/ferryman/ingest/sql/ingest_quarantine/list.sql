-- What could not be taken, newest first.
select aside.batch_id, aside.item_no, aside.created_at, aside.source, aside.endpoint, aside.reason, aside.item::text as item
from ferryman.ingest_quarantine as aside
where aside.tenant = :tenant
  and aside.source = :source
order by aside.created_at desc, aside.batch_id, aside.item_no
limit :limit
