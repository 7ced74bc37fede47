-- Agents by their ids, with what they are doing.
select agent.tenant, agent.agent_id, agent.profile, agent.worker_target, agent.when_busy, agent.derived_from, agent.tags,
       agent.metadata, agent.created_at, head.status, head.turn_epoch, head.active_agent_turn_id, head.output_box_id,
       head.last_output_box_id, head.since_at
from unnest((select :agent_ids::text[])) as given (agent_id)
join ferryman.agents as agent on agent.tenant = :tenant and agent.agent_id = given.agent_id
join ferryman.agent_state_head as head on head.id = agent.id
