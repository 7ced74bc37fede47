-- Those of these commands of a tenant that have ended; of one that is not there only what was asked for.
select given.id as asked, command.id, command.tenant, command.scope, command.command_type, command.session_id,
       command.idempotency_key, command.status, command.tasks, command.open, command.failed, command.retry_count,
       command.error_code, command.error_message, command.deadline_at, command.created_at, command.updated_at,
       command.started_at, command.finished_at, command.task, command.payload::text as payload
from unnest((select :ids::uuid[])) as given (id)
left join ferryman.command_inbox as command on command.id = given.id and command.tenant = :tenant
where command.id is null
   or command.finished_at is not null
