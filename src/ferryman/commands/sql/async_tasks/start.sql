-- (nothing) -> PENDING | RUNNING
-- An async task without a command.
with clock as materialized (
    select ferryman.clock() as now
),
born as (
    insert into ferryman.async_tasks (
        id, tenant, task_type, message_type, task, status, started_at, max_retries, input_data, deadline_at, created_at, updated_at
    )
    select :id, :tenant, :task_type, :type, :task, case when :delay::float8 > 0 then 'PENDING' else 'RUNNING' end,
        case when :delay::float8 > 0 then null else now end, :max_retries, :input::jsonb, now + make_interval(secs => :deadline::float8),
        now, now
    from clock
    returning id, tenant, task_type, status, created_at, deadline_at
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, to_state, subject_name)
    select created_at, id, tenant, 'async_task', status, task_type
    from born
)
select id, status, created_at, deadline_at
from born
