-- (nothing) -> RECEIVED
-- One whose id or key exists already is not received and not in the answer: the caller then reads what is there (met.sql).
with clock as materialized (
    select ferryman.clock() as now
),
born as (
    insert into ferryman.command_inbox (
        id, tenant, scope, command_type, session_id, idempotency_key, payload, deadline_at, task, traceparent,
        status, created_at, updated_at
    )
    select given.id, given.tenant, given.scope, given.command_type, given.session_id, given.idempotency_key, given.payload::jsonb,
        clock.now + make_interval(secs => given.deadline_seconds), given.task, given.traceparent,
        'RECEIVED', clock.now, clock.now
    from clock, unnest(
        :ids::uuid[], :tenants::text[], :scopes::text[], :types::text[], :sessions::text[], :keys::text[], :payloads::text[],
        :deadlines::float8[], :tasks::uuid[], :traces::text[]
    ) as given (id, tenant, scope, command_type, session_id, idempotency_key, payload, deadline_seconds, task, traceparent)
    on conflict do nothing
    returning id, tenant, scope, command_type, session_id, payload, created_at, deadline_at
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, to_state, subject_name, data)
    select created_at, id, tenant, 'command', 'RECEIVED', scope || '.Command.Received',
           jsonb_build_object('command_type', command_type, 'session_id', session_id, 'correlation_id', id, 'payload', payload)
    from born
)
select id, created_at, deadline_at
from born
