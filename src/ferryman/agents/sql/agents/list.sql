-- Agents by name, a page at a time, with what they are doing.
select agent.tenant, agent.agent_id, agent.profile, agent.worker_target, agent.when_busy, agent.derived_from, agent.tags,
       agent.metadata, agent.created_at, head.status, head.turn_epoch, head.active_agent_turn_id, head.output_box_id,
       head.last_output_box_id, head.since_at
from ferryman.agents as agent
join ferryman.agent_state_head as head on head.tenant = agent.tenant and head.agent_id = agent.agent_id
where agent.tenant = :tenant
  and agent.agent_id > :after
  and (:profile::text is null or agent.profile = :profile)
  and (:status::text is null or head.status = :status)
order by agent.agent_id
limit :limit
