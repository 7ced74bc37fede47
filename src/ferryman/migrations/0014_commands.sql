-- Commands: what was asked for, and the async tasks that the orchestrator starts for it (source 001).

-- One row for each command, from its receipt to its end. `open` counts what is still owed to it: the steps of its orchestration that are
-- under way, and its async tasks that live. It is written only by who holds the row, in the transaction of what it counts.
create table ferryman.command_inbox (
    id uuid primary key,
    deadline_at timestamptz not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    started_at timestamptz,
    finished_at timestamptz,
    task uuid not null,
    tasks integer not null default 0,
    open integer not null default 1,
    failed integer not null default 0,
    retry_count integer not null default 0 constraint command_inbox_retry_count_valid check (retry_count >= 0),
    status text not null,
    tenant text not null default 'default',
    scope text not null,
    command_type text not null,
    session_id text,
    idempotency_key text,
    traceparent text,
    error_code text,
    error_message text,
    trouble text,
    payload jsonb not null,
    constraint command_inbox_open_lives check (open >= 0 and (open > 0) = (finished_at is null))
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

comment on column ferryman.command_inbox.task is 'The task that runs its mapping.';
comment on column ferryman.command_inbox.trouble is 'What went wrong first, while the rest is still under way.';
comment on column ferryman.command_inbox.open is 'Steps under way and async tasks that live; at 0 it has ended.';

create unique index command_inbox_idempotency on ferryman.command_inbox (tenant, idempotency_key) where idempotency_key is not null;
create index command_inbox_ending on ferryman.command_inbox (deadline_at) where finished_at is null;

-- The columns and the constraints of the source. A task without a command is one that was started alone, or whose command is forgotten.
create table ferryman.async_tasks (
    id uuid primary key,
    deadline_at timestamptz not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    started_at timestamptz,
    completed_at timestamptz,
    triggered_by_command_id uuid references ferryman.command_inbox (id) on delete set null,
    task uuid,
    follow_up uuid,
    retry_count integer not null default 0,
    max_retries integer not null default 3,
    progress numeric(5, 2) not null default 0.00,
    status text not null default 'PENDING',
    tenant text not null default 'default',
    task_type text not null,
    message_type text not null,
    execution_node text,
    input_data jsonb,
    result_data jsonb,
    error_data jsonb,
    constraint check_progress_range check (progress >= 0.0 and progress <= 100.0),
    constraint check_retry_count_valid check (retry_count >= 0 and retry_count <= max_retries),
    constraint check_max_retries_non_negative check (max_retries >= 0),
    constraint check_running_has_started check (status <> 'RUNNING' or started_at is not null),
    constraint check_completed_has_timestamp check (status not in ('COMPLETED', 'FAILED') or completed_at is not null),
    constraint check_completed_has_result check (status <> 'COMPLETED' or result_data is not null),
    constraint check_failed_has_error check (status <> 'FAILED' or error_data is not null)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

comment on column ferryman.async_tasks.task is 'The task that runs its capability; null: the result comes from outside.';
comment on column ferryman.async_tasks.follow_up is 'The task that runs what was registered for its result, if anything was.';

create index async_tasks_command on ferryman.async_tasks (triggered_by_command_id, id);
create index async_tasks_ending on ferryman.async_tasks (deadline_at) where completed_at is null;

-- Which types of results have follow-ups, as the workers declared it: whoever settles a result need not have the code for them.
create table ferryman.command_routes (
    result_type text primary key,
    declared_at timestamptz not null
);

-- The guards, as declared in commands/states.py.
alter table ferryman.command_inbox add constraint command_inbox_status_known
    check (status in ('RECEIVED', 'PROCESSING', 'COMPLETED', 'FAILED'));

alter table ferryman.command_inbox add constraint command_inbox_finished_at_present
    check ((status in ('COMPLETED', 'FAILED')) = (finished_at is not null));

alter table ferryman.command_inbox add constraint command_inbox_error_message_present
    check ((status in ('FAILED')) = (error_message is not null));

create trigger command_inbox_status_moves
before update of status on ferryman.command_inbox
for each row
when (((old.status, new.status) in (('PROCESSING', 'COMPLETED'), ('PROCESSING', 'FAILED'), ('RECEIVED', 'FAILED'), ('RECEIVED', 'PROCESSING'))) is not true)
execute function ferryman.refuse_move('COMMAND_INVALID_TRANSITION', 'status', 'id');

create trigger command_inbox_status_births
before insert on ferryman.command_inbox
for each row
when ((new.status in ('RECEIVED')) is not true)
execute function ferryman.refuse_move('COMMAND_INVALID_TRANSITION', 'status', 'id');

alter table ferryman.async_tasks add constraint async_tasks_status_known
    check (status in ('PENDING', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELLED'));

alter table ferryman.async_tasks add constraint async_tasks_completed_at_present
    check ((status in ('COMPLETED', 'FAILED', 'CANCELLED')) = (completed_at is not null));

create trigger async_tasks_status_moves
before update of status on ferryman.async_tasks
for each row
when (((old.status, new.status) in (('PENDING', 'CANCELLED'), ('PENDING', 'COMPLETED'), ('PENDING', 'FAILED'), ('PENDING', 'RUNNING'), ('RUNNING', 'CANCELLED'), ('RUNNING', 'COMPLETED'), ('RUNNING', 'FAILED'))) is not true)
execute function ferryman.refuse_move('ASYNC_TASK_INVALID_TRANSITION', 'status', 'id');

create trigger async_tasks_status_births
before insert on ferryman.async_tasks
for each row
when ((new.status in ('PENDING', 'RUNNING')) is not true)
execute function ferryman.refuse_move('ASYNC_TASK_INVALID_TRANSITION', 'status', 'id');

-- C9
create view ferryman.async_task_statistics as
select task.tenant, task.task_type, task.status, count(*) as count,
       avg(took.seconds) as mean_seconds,
       percentile_cont(0.5) within group (order by took.seconds) as p50_seconds,
       percentile_cont(0.95) within group (order by took.seconds) as p95_seconds,
       max(took.seconds) as max_seconds,
       max(task.created_at) as latest_created_at,
       max(task.completed_at) as latest_completed_at
from ferryman.async_tasks as task
cross join lateral (select extract(epoch from task.completed_at - task.started_at)::float8 as seconds) as took
group by task.tenant, task.task_type, task.status;

comment on view ferryman.async_task_statistics is 'Async tasks by type and status: how many, and how long those took that have ended.';

create view ferryman.bounds_commands as
select 'command'::text as domain, command.id, command.tenant, command.status as state, 'W14'::text as rule,
       command.deadline_at as ends_by, command.deadline_at + ferryman.slack() as terminal_by
from ferryman.command_inbox as command
where command.finished_at is null
union all
select 'async_task', task.id, task.tenant, task.status, 'W14', task.deadline_at, task.deadline_at + ferryman.slack()
from ferryman.async_tasks as task
where task.completed_at is null;

comment on view ferryman.bounds_commands is 'Every live command and async task, the rule that ends it, and by when.';

create view ferryman.overdue_commands as
with edge as materialized (
    select ferryman.late_before() as late_before
)
select 'command'::text as domain, command.id, command.tenant, command.status as state, 'W14'::text as rule, command.deadline_at as ends_by
from ferryman.command_inbox as command
where command.deadline_at > '-infinity'
  and command.deadline_at < (select late_before from edge)
  and command.finished_at is null
union all
select 'async_task', task.id, task.tenant, task.status, 'W14', task.deadline_at
from ferryman.async_tasks as task
where task.deadline_at > '-infinity'
  and task.deadline_at < (select late_before from edge)
  and task.completed_at is null;

comment on view ferryman.overdue_commands is 'Live commands and async tasks past the time by which a rule should have ended them.';

select ferryman.unite_bounds();

-- K22: what a command or an async task is doing, and what it waits for.
create function ferryman.explained_commands(id uuid) returns jsonb
language sql stable as $$
    select jsonb_build_object(
        'domain', 'command', 'id', command.id, 'tenant', command.tenant, 'name', command.command_type, 'state', command.status,
        'tasks', command.tasks, 'open', command.open, 'failed', command.failed, 'error_code', command.error_code,
        'error_message', command.error_message,
        'doing', case
            when command.status = 'COMPLETED' then 'It has ended: all its tasks are completed.'
            when command.status = 'FAILED' then format('It has ended: %s', command.error_message)
            when command.status = 'RECEIVED' then 'It waits for its mapping to be run.'
            else format('It is worked on: %s of its %s tasks and steps are under way.', command.open, greatest(command.tasks, command.open)) end)
    from ferryman.command_inbox as command
    where command.id = explained_commands.id
    union all
    select jsonb_build_object(
        'domain', 'async_task', 'id', task.id, 'tenant', task.tenant, 'name', task.task_type, 'state', task.status,
        'command', task.triggered_by_command_id, 'task', task.task,
        'doing', case
            when task.completed_at is not null then 'It has ended.'
            when task.task is null then 'It waits for a result from outside.'
            when task.status = 'PENDING' then 'It waits for its time.'
            else 'Its capability runs as a task, or waits to.' end)
    from ferryman.async_tasks as task
    where task.id = explained_commands.id
$$;

create function ferryman.reasons_commands(id uuid) returns table (code text, says text, until timestamptz, about jsonb)
language sql stable as $$
    select 'waiting_for_mapping',
           format('Its mapping is the task %s (%s), which is %s.', part.id, part.name, part.state), part.ends_at,
           jsonb_build_object('task', part.id, 'state', part.state)
    from ferryman.command_inbox as command
    join ferryman.tasks as part on part.id = command.task
    where command.id = reasons_commands.id and command.status = 'RECEIVED'
    union all
    (select 'waiting_for_async_task',
           case when task.task is null then format('%s waits for a result from outside.', task.task_type)
                else format('%s is under way as the task %s, which is %s.', task.task_type, task.task, coalesce(part.state, 'gone')) end,
           task.deadline_at, jsonb_build_object('async_task', task.id, 'task', task.task, 'state', part.state)
    from ferryman.async_tasks as task
    left join ferryman.tasks as part on part.id = task.task
    where (task.triggered_by_command_id = reasons_commands.id or task.id = reasons_commands.id) and task.completed_at is null
    order by task.id
    limit 20)
    union all
    (select 'waiting_for_follow_up',
           format('What follows %s is the task %s (%s), which is %s.', task.task_type, part.id, part.name, part.state), part.ends_at,
           jsonb_build_object('async_task', task.id, 'task', part.id, 'state', part.state)
    from ferryman.async_tasks as task
    join ferryman.tasks as part on part.id = task.follow_up
    where task.triggered_by_command_id = reasons_commands.id and part.finished_at is null
    order by task.id
    limit 20)
    union all
    select 'nobody_knows_it', format('No living worker knows %s in the queue %s.', part.name, part.queue), null::timestamptz,
           jsonb_build_object('name', part.name, 'queue', part.queue)
    from (
        select command.task as id from ferryman.command_inbox as command
        where command.id = reasons_commands.id and command.status = 'RECEIVED'
        union all
        select task.task from ferryman.async_tasks as task
        where (task.triggered_by_command_id = reasons_commands.id or task.id = reasons_commands.id) and task.completed_at is null
    ) as owed
    join ferryman.tasks as part on part.id = owed.id
    where part.rank is not null
      and not exists (select from ferryman.workers as worker
                      where worker.seen_until >= ferryman.clock() and part.queue = any(worker.queues) and part.name = any(worker.handlers))
$$;
