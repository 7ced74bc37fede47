select record.tenant, record.id, record.deliverable_card_id
from ferryman.agent_inbox as record
left join ferryman.boxes as box on box.tenant = record.tenant and box.id = record.output_box_id
left join ferryman.cards as card on card.tenant = record.tenant and card.id = record.deliverable_card_id
where record.turn_status is not null
  and record.merged_into is null
  and record.output_box_id is not null
  and (card.type is distinct from 'task.deliverable' or not (record.deliverable_card_id = any(box.card_ids)))
