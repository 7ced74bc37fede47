-- What sends met: by id (the same send, sent twice), or by key. Each way has its own lookup (see tasks/existing.sql).
with word as materialized (
    select given.tenant, given.id, given.key, given.nth
    from unnest((select :tenants::text[]), (select :ids::uuid[]), (select :keys::text[])) with ordinality as given (tenant, id, key, nth)
    limit (select 1000000)
),
met as (
    select word.nth, command.id
    from word
    join ferryman.command_inbox as command on command.id = word.id
    where command.tenant = word.tenant
    union
    select word.nth, command.id
    from word
    join ferryman.command_inbox as command on command.tenant = word.tenant and command.idempotency_key = word.key
)
select met.nth, command.id, command.tenant, command.scope, command.command_type, command.session_id, command.idempotency_key,
       command.status, command.tasks, command.open, command.failed, command.retry_count, command.error_code, command.error_message,
       command.deadline_at, command.created_at, command.updated_at, command.started_at, command.finished_at, command.task,
       command.payload::text as payload
from met
join ferryman.command_inbox as command on command.id = met.id
