-- Which agents wait for these calls, and at which depth; whatever became of the wait.
select waited.tenant, waited.tool_call_id, waited.agent_id, waited.agent_turn_id, waited.turn_epoch, waited.tool_name,
       waited.after_execution, waited.wait_status, record.recursion_depth
from unnest((select :tenants::text[]), (select :calls::text[])) as given (tenant, tool_call_id)
join ferryman.turn_waiting_tools as waited on waited.tenant = given.tenant and waited.tool_call_id = given.tool_call_id
left join ferryman.agent_inbox as record on record.id = waited.agent_turn_id
