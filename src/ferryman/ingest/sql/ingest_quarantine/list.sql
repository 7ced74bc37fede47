-- What could not be taken, newest first, a page at a time: what comes after one record of it.
select aside.batch_id, aside.item_no, aside.created_at, aside.source, aside.endpoint, aside.reason, aside.item::text as item
from ferryman.ingest_quarantine as aside
where aside.tenant = :tenant
  and aside.source = :source
  and (:batch::uuid is null
       or (aside.created_at, aside.batch_id, aside.item_no) < (
           select last.created_at, last.batch_id, last.item_no
           from ferryman.ingest_quarantine as last
           where last.batch_id = :batch and last.item_no = :no::integer and last.tenant = :tenant))
order by aside.created_at desc, aside.batch_id desc, aside.item_no desc
limit :limit
