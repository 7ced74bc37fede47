-- idle -> (nothing)
-- Derived agents that were made for turns which never came, and the edges of what was asked for.
with gone as (
    delete from ferryman.agent_state_head as head
    using ferryman.agents as agent,
          unnest((select :tenants::text[]), (select :agent_ids::text[])) as word (tenant, agent_id)
    where head.tenant = word.tenant
      and head.agent_id = word.agent_id
      and head.status = 'idle'
      and agent.id = head.id
      and agent.derived_from is not null
      and not exists (select from ferryman.agent_inbox as message
                      where message.tenant = word.tenant
                        and message.agent_id = word.agent_id
                        and message.agent_turn_id = message.id)
      and not exists (select from ferryman.pmo_batch_tasks as task
                      where task.tenant = word.tenant
                        and task.agent_id = word.agent_id
                        and task.status = 'pending'
                        and task.retryable)
    returning head.id
)
delete from ferryman.agents as agent
using gone
where agent.id = gone.id
returning agent.id
