-- Batches: many agents' turns asked for at once, joined into one result (B15).

create table ferryman.pmo_batches (
    id uuid primary key,
    tenant text not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    deadline_at timestamptz not null,
    finished_at timestamptz,
    parent_told_at timestamptz,
    parent_turn_epoch bigint,
    task_count integer not null check (task_count > 0),
    recursion_depth integer not null,
    parent_agent_turn_id uuid,
    parent_step_id uuid,
    budget_id uuid,
    fail_fast boolean not null default false,
    status text not null default 'running',
    reason text,
    parent_agent_id text,
    parent_tool_call_id text,
    parent_channel_id text,
    traceparent text,
    metadata jsonb not null default '{}'
);

comment on column ferryman.pmo_batches.parent_agent_id is 'Null: the batch was forked from outside of an agent.';
comment on column ferryman.pmo_batches.parent_told_at is 'When the parent got its result: with the end of the batch, or by W12.';

create index pmo_batches_deadline on ferryman.pmo_batches (deadline_at) where finished_at is null;
create index pmo_batches_parent on ferryman.pmo_batches (parent_agent_turn_id) where finished_at is null and parent_agent_turn_id is not null;
create index pmo_batches_forked on ferryman.pmo_batches (tenant, parent_agent_id, id) where parent_agent_id is not null;
create index pmo_batches_listed on ferryman.pmo_batches (tenant, id);
create index pmo_batches_untold on ferryman.pmo_batches (finished_at) where finished_at is not null and parent_told_at is null;

create table ferryman.pmo_batch_tasks (
    id uuid primary key,
    tenant text not null,
    batch_id uuid not null references ferryman.pmo_batches (id) on delete cascade,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    ends_at timestamptz not null,
    next_retry_at timestamptz not null,
    dispatched_at timestamptz,
    finished_at timestamptz,
    current_turn_epoch bigint,
    task_index integer not null check (task_index >= 0),
    attempt_count integer not null default 0,
    agent_turn_id uuid not null,
    current_agent_turn_id uuid,
    context_box_id uuid not null,
    output_box_id uuid,
    error_box_id uuid,
    retryable boolean not null default true,
    status text not null default 'pending',
    agent_id text not null,
    profile text not null,
    payload_hash text not null,
    error_detail text,
    metadata jsonb not null default '{}',
    unique (batch_id, task_index)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

comment on column ferryman.pmo_batch_tasks.agent_turn_id is 'The child''s turn: made once, kept through every try of a dispatch.';
comment on column ferryman.pmo_batch_tasks.ends_at is 'The deadline of its batch, which ends it whatever happens.';

-- What a dispatch reads: the batches of each tenant that have tasks to send, oldest first.
create index pmo_batch_tasks_pending on ferryman.pmo_batch_tasks (tenant, batch_id, task_index) where status = 'pending' and retryable;
-- What is sent, oldest first: children without an epoch, and children that ended unheard (W11, W12).
create index pmo_batch_tasks_dispatched on ferryman.pmo_batch_tasks (dispatched_at) where status = 'dispatched';

-- The guards, as declared in batches/states.py.
alter table ferryman.pmo_batches add constraint pmo_batches_status_known
    check (status in ('running', 'success', 'failed', 'timeout', 'partial'));

alter table ferryman.pmo_batches add constraint pmo_batches_finished_at_present
    check ((status in ('success', 'failed', 'timeout', 'partial')) = (finished_at is not null));

create trigger pmo_batches_status_moves
before update of status on ferryman.pmo_batches
for each row
when (((old.status, new.status) in (('running', 'failed'), ('running', 'partial'), ('running', 'success'), ('running', 'timeout'))) is not true)
execute function ferryman.refuse_move('BATCH_INVALID_TRANSITION', 'status', 'id');

create trigger pmo_batches_status_births
before insert on ferryman.pmo_batches
for each row
when ((new.status in ('running')) is not true)
execute function ferryman.refuse_move('BATCH_INVALID_TRANSITION', 'status', 'id');

alter table ferryman.pmo_batch_tasks add constraint pmo_batch_tasks_status_known
    check (status in ('pending', 'dispatched', 'success', 'failed', 'canceled', 'timeout', 'partial'));

alter table ferryman.pmo_batch_tasks add constraint pmo_batch_tasks_finished_at_present
    check ((status in ('success', 'failed', 'canceled', 'timeout', 'partial')) = (finished_at is not null));

create trigger pmo_batch_tasks_status_moves
before update of status on ferryman.pmo_batch_tasks
for each row
when (((old.status, new.status) in (('dispatched', 'canceled'), ('dispatched', 'failed'), ('dispatched', 'partial'), ('dispatched', 'pending'), ('dispatched', 'success'), ('dispatched', 'timeout'), ('pending', 'canceled'), ('pending', 'dispatched'), ('pending', 'failed'), ('pending', 'timeout'))) is not true)
execute function ferryman.refuse_move('BATCH_TASK_INVALID_TRANSITION', 'status', 'id');

create trigger pmo_batch_tasks_status_births
before insert on ferryman.pmo_batch_tasks
for each row
when ((new.status in ('pending')) is not true)
execute function ferryman.refuse_move('BATCH_TASK_INVALID_TRANSITION', 'status', 'id');

-- K21: what ends each live row, and by when.
create view ferryman.bounds_batches as
select 'batch'::text as domain, batch.id, batch.tenant, batch.status as state, 'W10'::text as rule, batch.deadline_at as ends_by,
       batch.deadline_at + 2 * ferryman.slack() as terminal_by
from ferryman.pmo_batches as batch
where batch.finished_at is null
union all
select 'batch_task', task.id, task.tenant, task.status, 'W10', task.ends_at, task.ends_at + 2 * ferryman.slack()
from ferryman.pmo_batch_tasks as task
where task.finished_at is null;

comment on view ferryman.bounds_batches is 'Every batch and batch task that is live, the rule that ends it, and by when.';

create view ferryman.overdue_batches as
with edge as materialized (
    select ferryman.late_before() as late_before
)
select 'batch'::text as domain, batch.id, batch.tenant, batch.status as state, 'W10'::text as rule, batch.deadline_at as ends_by
from ferryman.pmo_batches as batch
where batch.finished_at is null
  and batch.deadline_at > '-infinity'
  and batch.deadline_at < (select late_before from edge)
union all
select 'batch', batch.id, batch.tenant, batch.status, 'W12', batch.finished_at
from ferryman.pmo_batches as batch
where batch.parent_told_at is null
  and batch.finished_at > '-infinity'
  and batch.finished_at < (select late_before from edge);

comment on view ferryman.overdue_batches is 'Batches past the time by which a rule should have ended them, or told their parents.';

select ferryman.unite_bounds();
