-- The calls of a turn with their times, in order.
select waited.tool_call_id, waited.tool_name, waited.nth, waited.wait_status, waited.created_at, waited.deadline_at,
       waited.received_at, waited.applied_at, waited.step_id, waited.task_id, card.content ->> 'status' as status
from ferryman.turn_waiting_tools as waited
left join ferryman.cards as card on card.tenant = waited.tenant and card.id = waited.tool_result_card_id
where waited.tenant = :tenant
  and waited.agent_turn_id = :turn
order by waited.created_at, waited.tool_call_id
