-- What some turns remember, in the order in which it happened.
select step.agent_turn_id, step.kind, step.name, step.nth, step.id, step.status, step.error, step.result, step.tool_call_ids,
       step.input_tokens, step.output_tokens, step.cost, step.started_at, step.ended_at, step.metadata
from unnest((select :tenants::text[]), (select :ids::uuid[])) as given (tenant, id)
join ferryman.agent_steps as step on step.tenant = given.tenant and step.agent_turn_id = given.id
order by step.agent_turn_id, step.started_at, step.id
