-- Which of these turns still wait in line, and whom their ends are owed to.
select message.tenant, message.id, message.agent_id, message.callback, message.callback_ref
from unnest((select :ids::uuid[])) as given (id)
join ferryman.agent_inbox as message on message.tenant = :tenant and message.id = given.id
where message.status = 'queued'
