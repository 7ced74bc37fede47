-- Schedules: standing orders, each firing of which is a task (T8, T10, T11).

create table ferryman.schedules (
    id uuid primary key,
    next_run_at timestamptz,
    last_run_at timestamptz,
    ends_at timestamptz,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    ended_at timestamptz,
    interval_ms bigint,
    timeout_ms bigint not null,
    fired bigint not null default 0,
    missed bigint not null default 0,
    skipped bigint not null default 0,
    max_retries integer not null,
    priority smallint not null,
    declared boolean not null,
    state text not null,
    tenant text not null,
    queue text not null,
    name text not null,
    schedule_type text not null,
    cron_expr text,
    timezone text,
    catch_up text not null,
    overlap text not null,
    schedule_id text,
    idempotency_key text,
    idempotency_scope text,
    backoff jsonb,
    payload jsonb not null,
    constraint schedules_rhythm_whole check (
        case schedule_type
            when 'every' then interval_ms > 0 and num_nonnulls(cron_expr, timezone) = 0
            else schedule_type in ('cron', 'daily') and num_nonnulls(cron_expr, timezone) = 2 and interval_ms is null
        end),
    constraint schedules_catch_up_known check (catch_up in ('latest', 'all', 'none')),
    constraint schedules_overlap_known check (overlap in ('allow', 'skip', 'cancel_previous')),
    constraint schedules_next_run_at_finite check (isfinite(next_run_at))
);

comment on column ferryman.schedules.schedule_id is 'Given by its creator; null means: the text of id.';
comment on column ferryman.schedules.next_run_at is 'When it fires next. Null: it is paused or has ended.';
comment on column ferryman.schedules.last_run_at is 'The fire time of its latest task.';
comment on column ferryman.schedules.declared is 'It stands in the code of an app, which brings it up to date when a worker starts.';

-- The one index that the sweep reads.
create index schedules_due on ferryman.schedules (next_run_at) where next_run_at is not null;
-- Names and keys are free again when a schedule has ended.
create unique index schedules_schedule_id on ferryman.schedules (tenant, schedule_id)
    where schedule_id is not null and ended_at is null;
create unique index schedules_idempotency on ferryman.schedules (tenant, idempotency_key, idempotency_scope)
    nulls not distinct where idempotency_key is not null and ended_at is null;
create index schedules_tenant on ferryman.schedules (tenant, id);

-- The guard, as declared in tasks/states.py.
alter table ferryman.schedules add constraint schedules_state_known
    check (state in ('active', 'paused', 'ended'));

alter table ferryman.schedules add constraint schedules_next_run_at_present
    check ((state in ('active')) = (next_run_at is not null));

alter table ferryman.schedules add constraint schedules_ended_at_present
    check ((state in ('ended')) = (ended_at is not null));

create trigger schedules_state_moves
before update of state on ferryman.schedules
for each row
when (((old.state, new.state) in (('active', 'ended'), ('active', 'paused'), ('paused', 'active'), ('paused', 'ended'))) is not true)
execute function ferryman.refuse_move('SCHEDULE_INVALID_TRANSITION', 'state', 'id');

create trigger schedules_state_births
before insert on ferryman.schedules
for each row
when ((new.state in ('active')) is not true)
execute function ferryman.refuse_move('SCHEDULE_INVALID_TRANSITION', 'state', 'id');

-- A task that a schedule fired says which and for when. Both are null in every other task, and so are in no index there.
alter table ferryman.tasks
    add column schedule uuid,
    add column fire_time timestamptz;

comment on column ferryman.tasks.schedule is 'The schedule that fired it; together with fire_time the name of one firing.';

-- Made in place: the columns are new, and no release has the table without them.
-- One firing, one task, however many fire.
-- squawk-ignore require-concurrent-index-creation
create unique index tasks_firing on ferryman.tasks (schedule, fire_time) where schedule is not null;
-- What of a schedule is still live: asked by `overlap`, before each firing.
-- squawk-ignore require-concurrent-index-creation
create index tasks_firing_live on ferryman.tasks (schedule) where schedule is not null and finished_at is null;

-- An active schedule is never ended by a rule, but one acts on it at its next_run_at.
create or replace view ferryman.bounds as
select 'task'::text as domain, task.id, task.tenant, task.state, 'W13'::text as rule, task.leased_until as ends_by,
       task.ends_at + task.timeout_ms * interval '1 ms' + interval '5 s' + ferryman.slack() as terminal_by
from ferryman.tasks as task
where task.leased_until is not null
union all
select 'task', task.id, task.tenant, task.state, 'T21', task.ends_at,
       task.ends_at + task.timeout_ms * interval '1 ms' + interval '5 s' + ferryman.slack()
from ferryman.tasks as task
where task.finished_at is null
  and task.leased_until is null
union all
select 'schedule', schedule.id, schedule.tenant, schedule.state, 'T10', schedule.next_run_at, schedule.ends_at
from ferryman.schedules as schedule
where schedule.next_run_at is not null;

create or replace view ferryman.overdue as
with edge as materialized (
    -- After an outage nothing is late before the grace period and one sweep are over. Grace is wall time.
    select case when watchdog.grace_until < clock_timestamp() - ferryman.slack()
                then ferryman.clock() - ferryman.slack()
                else '-infinity' end as late_before
    from ferryman.watchdog
)
select 'task'::text as domain, task.id, task.tenant, task.state, 'W13'::text as rule, task.leased_until as ends_by
from ferryman.tasks as task
where task.leased_until < (select late_before from edge)
union all
select 'task', task.id, task.tenant, task.state, 'T21', task.ends_at
from ferryman.tasks as task
where task.ends_at < (select late_before from edge)
  and task.finished_at is null
  and task.leased_until is null
union all
select 'task', task.id, task.tenant, task.state, 'T1', task.wake_at
from ferryman.tasks as task
where task.wake_at < (select late_before from edge)
union all
select 'schedule', schedule.id, schedule.tenant, schedule.state, 'T10', schedule.next_run_at
from ferryman.schedules as schedule
where schedule.next_run_at < (select late_before from edge);
