-- The turn that each of these agents would do next, of those that wait.
select distinct on (message.tenant, message.agent_id) message.tenant, message.agent_id, message.id
from unnest((select :tenants::text[]), (select :agent_ids::text[])) as given (tenant, agent_id)
join ferryman.agent_inbox as message on message.tenant = given.tenant and message.agent_id = given.agent_id
where message.archived_at is null
  and message.status = 'queued'
  and message.merged_into is null
order by message.tenant, message.agent_id, message.created_at, message.id
