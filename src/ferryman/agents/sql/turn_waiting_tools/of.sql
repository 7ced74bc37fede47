-- Which agents wait for these calls, and at which epoch each was made; whatever became of the wait.
select waited.tenant, waited.tool_call_id, waited.agent_id, waited.turn_epoch
from unnest((select :tenants::text[]), (select :calls::text[])) as given (tenant, tool_call_id)
join ferryman.turn_waiting_tools as waited on waited.tenant = given.tenant and waited.tool_call_id = given.tool_call_id
