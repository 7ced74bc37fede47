-- Boxes, each with its cards in order.
insert into ferryman.boxes (tenant, id, created_at, updated_at, card_ids)
select word.tenant, word.id, ferryman.clock(), ferryman.clock(), word.card_ids
from jsonb_to_recordset(:boxes::jsonb) as word (tenant text, id uuid, card_ids uuid[])
on conflict do nothing
returning id
