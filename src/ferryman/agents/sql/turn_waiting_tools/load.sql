-- The calls that some turns made, in order, each with its result if there is one: what a replay answers at once.
select waited.agent_turn_id, waited.tool_call_id, waited.tool_name, waited.nth, waited.wait_status, waited.turn_epoch,
       waited.after_execution, waited.tool_result_card_id, card.content as result
from unnest((select :tenants::text[]), (select :ids::uuid[])) as given (tenant, id)
join ferryman.turn_waiting_tools as waited on waited.agent_turn_id = given.id and waited.tenant = given.tenant
left join ferryman.cards as card on card.id = waited.tool_result_card_id
order by waited.agent_turn_id, waited.created_at, waited.tool_call_id
