-- The turns of an agent, newest first, a page at a time.
select record.id, record.tenant, record.agent_id, record.message_type, record.status, record.channel_id, record.turn_epoch,
       record.recursion_depth, record.context_box_id, record.output_box_id, record.turn_status, record.deliverable_card_id,
       record.tool_result_card_id, record.error_code, record.error, record.merged_into, record.created_at, record.ended_at,
       head.status as head_status, head.turn_epoch as head_epoch, head.waiting_tool_count, head.started_at
from ferryman.agent_inbox as record
left join ferryman.agent_state_head as head
  on head.tenant = record.tenant and head.agent_id = record.agent_id and head.active_agent_turn_id = record.id
where record.tenant = :tenant
  and record.agent_id = :agent_id
  and record.agent_turn_id = record.id
  and (:before::timestamptz is null
       or (record.created_at, record.id) < (:before, coalesce(:last::uuid, '00000000-0000-0000-0000-000000000000')))
order by record.created_at desc, record.id desc
limit :limit
