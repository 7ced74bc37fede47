-- Records that could not be taken, each with the reason; with the batch that brought them.
insert into ferryman.ingest_quarantine (batch_id, item_no, created_at, tenant, source, endpoint, reason, item)
select :batch_id, word.item_no, ferryman.clock(), :tenant, :source, :endpoint, word.reason, word.item::jsonb
from unnest(:item_nos::integer[], :reasons::text[], :items::text[]) as word (item_no, reason, item)
returning item_no
