-- Messages that were merged into these turns, and still wait.
select message.tenant, message.id, message.callback, message.callback_ref
from unnest((select :tenants::text[]), (select :agent_ids::text[]), (select :ids::uuid[])) as given (tenant, agent_id, id)
join ferryman.agent_inbox as message on message.tenant = given.tenant and message.agent_id = given.agent_id
where message.archived_at is null
  and message.merged_into = given.id
