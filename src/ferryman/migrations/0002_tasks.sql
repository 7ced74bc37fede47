-- Tasks: one unit of work each, from its birth to its end.

create table ferryman.tasks (
    id uuid primary key,
    due_at timestamptz not null,
    ends_at timestamptz not null,
    rank timestamptz,
    wake_at timestamptz,
    leased_until timestamptz,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    started_at timestamptz,
    finished_at timestamptz,
    scheduled_at timestamptz,
    epoch bigint not null default 0,
    timeout_ms bigint not null,
    attempt integer not null default 1,
    max_retries integer not null,
    lease_count integer not null default 0,
    priority smallint not null default 0,
    lease_owner uuid,
    state text not null,
    tenant text not null default 'default',
    queue text not null default 'default',
    name text not null,
    schedule_type text,
    task_id text,
    idempotency_key text,
    idempotency_scope text,
    callback text,
    callback_ref text,
    traceparent text,
    last_error_code text,
    last_error_reason text,
    backoff jsonb,
    payload jsonb not null,
    result jsonb
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

comment on column ferryman.tasks.task_id is 'Given by the caller; null means: the text of id.';
comment on column ferryman.tasks.rank is 'Place in the order of claiming: due time + priority x 60 s. Null: cannot be claimed now.';
comment on column ferryman.tasks.wake_at is 'When the sweep puts it into the order of claiming. Null: it is there, or runs, or has ended.';
comment on column ferryman.tasks.epoch is 'The fence: grows with every claim, compared by every write of a holder.';

-- The one index that claiming reads; what is not due is not in it.
create index tasks_ready on ferryman.tasks (queue, tenant, rank, id) where rank is not null;
-- The sweeps. Their predicates name no column that a hot statement mentions, so that the planner cannot settle through them.
create index tasks_waking on ferryman.tasks (wake_at) where wake_at is not null;
create index tasks_leased on ferryman.tasks (leased_until) where leased_until is not null;
create index tasks_ending on ferryman.tasks (ends_at) where finished_at is null and leased_until is null;
create unique index tasks_task_id on ferryman.tasks (tenant, task_id) where task_id is not null;
create unique index tasks_idempotency on ferryman.tasks (tenant, idempotency_key, idempotency_scope)
    nulls not distinct where idempotency_key is not null;

-- How far a running task is. Apart from the task's row, which is kept narrow and must not be rewritten for each word.
create table ferryman.task_progress (
    id uuid primary key references ferryman.tasks (id) on delete cascade,
    percent smallint not null check (percent between 0 and 100),
    at timestamptz not null,
    message text
) with (fillfactor = 70);

create table ferryman.task_logs (
    id bigint generated always as identity primary key,
    task uuid not null references ferryman.tasks (id) on delete cascade,
    at timestamptz not null,
    attempt integer not null,
    level text not null,
    message text not null
);
create index task_logs_task on ferryman.task_logs (task, id);

-- The guard, as declared in tasks/states.py.
alter table ferryman.tasks add constraint tasks_state_known
    check (state in ('pending', 'ready', 'running', 'succeeded', 'failed', 'cancelled'));

alter table ferryman.tasks add constraint tasks_leased_until_present
    check ((state in ('running')) = (leased_until is not null));

alter table ferryman.tasks add constraint tasks_lease_owner_present
    check ((state in ('running')) = (lease_owner is not null));

alter table ferryman.tasks add constraint tasks_finished_at_present
    check ((state in ('succeeded', 'failed', 'cancelled')) = (finished_at is not null));

create trigger tasks_state_moves
before update of state on ferryman.tasks
for each row
when (((old.state, new.state) in (('pending', 'cancelled'), ('pending', 'ready'), ('ready', 'cancelled'), ('ready', 'running'), ('running', 'cancelled'), ('running', 'failed'), ('running', 'ready'), ('running', 'succeeded'))) is not true)
execute function ferryman.refuse_move('TASK_INVALID_TRANSITION', 'state', 'id');

create trigger tasks_state_births
before insert on ferryman.tasks
for each row
when ((new.state in ('pending', 'ready')) is not true)
execute function ferryman.refuse_move('TASK_INVALID_TRANSITION', 'state', 'id');

-- A live task is in exactly one place: claimable, waiting for a time, or leased; an ended one is in none.
alter table ferryman.tasks add constraint tasks_one_place
    check (num_nonnulls(rank, wake_at, leased_until) = case when finished_at is null then 1 else 0 end);
