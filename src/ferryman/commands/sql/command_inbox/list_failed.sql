-- A page of a tenant's commands that failed, newest first, as list.sql, but found by an index of their own.
select command.id, command.tenant, command.scope, command.command_type, command.session_id, command.idempotency_key,
       command.status, command.tasks, command.open, command.failed, command.retry_count, command.error_code, command.error_message,
       command.deadline_at, command.created_at, command.updated_at, command.started_at, command.finished_at, command.task,
       command.payload::text as payload
from ferryman.command_inbox as command
where command.tenant = :tenant
  and command.error_message is not null
  and (:type::text is null or command.command_type = :type::text)
  and (:before::uuid is null or command.id < :before::uuid)
order by command.id desc
limit :limit
