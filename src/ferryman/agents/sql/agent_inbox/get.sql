-- Turns as callers see them: how each came, how far it is, how it ended.
select record.id, record.tenant, record.agent_id, record.message_type, record.status, record.channel_id, record.turn_epoch,
       record.recursion_depth, record.context_box_id, record.output_box_id, record.turn_status, record.deliverable_card_id,
       record.tool_result_card_id, record.error_code, record.error, record.merged_into, record.created_at, record.ended_at,
       head.status as head_status, head.turn_epoch as head_epoch, head.waiting_tool_count, head.started_at
from unnest((select :ids::uuid[])) as given (id)
join ferryman.agent_inbox as record on record.id = given.id and record.tenant = :tenant
left join ferryman.agent_state_head as head
  on head.active_agent_turn_id = record.id
