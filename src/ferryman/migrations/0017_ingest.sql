-- Ingestion (I1 to I16): a trigger makes a plan, a plan slices, a slice has a task, a task runs, a run has batches; finished
-- coverage moves cursors, whose every move is an event first.

create table ferryman.ingest_schedule_instance (
    id uuid primary key,
    fire_time timestamptz not null,
    created_at timestamptz not null,
    tenant text not null,
    job text not null,
    trigger_type text not null,
    source text not null,
    endpoint text not null,
    operation text not null,
    params jsonb not null,
    constraint ingest_schedule_instance_trigger_known check (trigger_type in ('SCHEDULE', 'MANUAL', 'API')),
    constraint ingest_schedule_instance_firing unique (tenant, job, fire_time)
);

-- What all executors know of a source: claims of its tasks go one after another behind this row, and its circuit breaker.
create table ferryman.ingest_source (
    tenant text not null,
    source text not null,
    open_until timestamptz,
    failures integer not null default 0,
    opened bigint not null default 0,
    primary key (tenant, source)
);

comment on column ferryman.ingest_source.failures is 'Failed requests since the last one that succeeded.';
comment on column ferryman.ingest_source.open_until is 'The circuit breaker is open until then: nothing of this source is claimed or asked.';

create table ferryman.ingest_plan (
    id uuid primary key,
    schedule_instance_id uuid not null references ferryman.ingest_schedule_instance (id),
    cursor_id uuid,
    window_from timestamptz,
    window_to timestamptz,
    lower bigint,
    upper bigint,
    ends_at timestamptz not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    finished_at timestamptz,
    tenant text not null,
    plan_key text not null,
    source text not null,
    endpoint text not null,
    operation text not null,
    strategy text not null,
    status text not null,
    expr_hash text not null,
    campaign text not null,
    expression jsonb not null,
    params jsonb not null,
    config jsonb not null,
    budget jsonb not null,
    constraint ingest_plan_key unique (tenant, plan_key),
    constraint ingest_plan_operation_known check (operation in ('HARVEST', 'BACKFILL', 'UPDATE')),
    constraint ingest_plan_strategy_known
        check (strategy in ('TIME', 'ID_RANGE', 'CURSOR_LANDMARK', 'VOLUME_BUDGET', 'HYBRID')),
    constraint ingest_plan_window_forward check (window_from < window_to and lower < upper)
);

comment on column ferryman.ingest_plan.lower is 'Where it begins, as a number: microseconds of an instant, or an id. Null: its slices have no order.';

create index ingest_plan_tenant on ferryman.ingest_plan (tenant, id);

create table ferryman.ingest_slice (
    id uuid primary key,
    plan_id uuid not null references ferryman.ingest_plan (id),
    cursor_id uuid,
    window_from timestamptz,
    window_to timestamptz,
    lower bigint,
    upper bigint,
    covered bigint,
    ends_at timestamptz not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    slice_no integer not null,
    estimate integer,
    depth smallint not null,
    priority smallint not null,
    tenant text not null,
    source text not null,
    status text not null,
    slice_signature_hash text not null,
    reason text,
    resliced_by uuid[],
    spec jsonb not null,
    params jsonb not null,
    constraint ingest_slice_number unique (plan_id, slice_no),
    constraint ingest_slice_signature unique (plan_id, slice_signature_hash),
    constraint ingest_slice_forward check (window_from < window_to and lower < upper),
    constraint ingest_slice_covered_inside check (covered > lower and covered <= upper)
);

comment on column ferryman.ingest_slice.covered is 'Everything from lower up to here has been fetched.';
comment on column ferryman.ingest_slice.resliced_by is 'The slices that stand in its place.';

-- What the planner has still to derive, in its order.
create index ingest_slice_pending on ferryman.ingest_slice (tenant, source, priority, created_at, slice_no)
    where status = 'PENDING';
create index ingest_slice_expiring on ferryman.ingest_slice (ends_at) where status = 'PENDING';
-- What may still lie before a cursor.
create index ingest_slice_cursor on ferryman.ingest_slice (cursor_id, upper) where cursor_id is not null;

create table ferryman.ingest_task (
    id uuid primary key,
    plan_id uuid not null references ferryman.ingest_plan (id),
    slice_id uuid not null references ferryman.ingest_slice (id),
    lease_owner uuid,
    epoch bigint not null default 0,
    scheduled_at timestamptz not null,
    rank timestamptz,
    ends_at timestamptz not null,
    leased_until timestamptz,
    claimed_at timestamptz,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    finished_at timestamptz,
    decided_at timestamptz,
    max_items bigint,
    max_requests bigint,
    max_seconds integer not null,
    lease_count integer not null default 0,
    forgiven integer not null default 0,
    attempt integer not null default 0,
    used integer not null default 0,
    max_attempts integer not null,
    max_claims integer not null,
    priority smallint not null,
    tenant text not null,
    source text not null,
    endpoint text not null,
    operation text not null,
    status text not null,
    idempotent_key text not null,
    slice_signature_hash text not null,
    expr_hash text not null,
    error_code text,
    error_reason text,
    decision text,
    params jsonb not null,
    constraint ingest_task_slice unique (slice_id),
    constraint ingest_task_key unique (tenant, idempotent_key),
    constraint ingest_task_budget_some
        check (max_seconds > 0 and coalesce(max_items, 1) > 0 and coalesce(max_requests, 1) > 0),
    constraint ingest_task_decision_known check (decision in ('bisect', 'remainder', 'none'))
);

comment on column ferryman.ingest_task.rank is 'Its place in the order of claiming: scheduled_at and ten minutes for each step of priority.';
comment on column ferryman.ingest_task.epoch is 'The fence: the number of its claim.';
comment on column ferryman.ingest_task.forgiven is 'Claims that were handed back or postponed, and so do not count against max_claims.';
comment on column ferryman.ingest_task.used is 'Runs that ended by their own fault and left something undone; max_attempts of them end the task.';
comment on column ferryman.ingest_task.decision is 'What the planner made of a PARTIAL end.';

-- The four looks: in line, leased, waiting too long, left to the planner.
create index ingest_task_line on ferryman.ingest_task (tenant, source, rank) where rank is not null;
create index ingest_task_leased on ferryman.ingest_task (leased_until) where leased_until is not null;
create index ingest_task_expiring on ferryman.ingest_task (ends_at) where rank is not null;
create index ingest_task_undecided on ferryman.ingest_task (id) where status = 'PARTIAL' and decision is null;
create index ingest_task_plan on ferryman.ingest_task (plan_id);

create table ferryman.ingest_run (
    id uuid primary key,
    task_id uuid not null references ferryman.ingest_task (id),
    lease_owner uuid not null,
    epoch bigint not null,
    leased_until timestamptz,
    planned_at timestamptz not null,
    started_at timestamptz,
    finished_at timestamptz,
    updated_at timestamptz not null,
    attempt integer not null,
    tenant text not null,
    status text not null,
    error_code text,
    error_reason text,
    stats jsonb not null default '{}',
    constraint ingest_run_attempt unique (task_id, attempt)
);

create index ingest_run_leased on ferryman.ingest_run (leased_until) where leased_until is not null;

create table ferryman.ingest_batch (
    id uuid primary key,
    run_id uuid not null references ferryman.ingest_run (id),
    task_id uuid not null references ferryman.ingest_task (id),
    slice_id uuid not null references ferryman.ingest_slice (id),
    watermark timestamptz,
    ends_by timestamptz,
    committed_at timestamptz,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    record_count bigint not null default 0,
    requests integer not null default 1,
    batch_no integer not null,
    has_next boolean,
    tenant text not null,
    status text not null,
    before_token text not null,
    after_token text,
    idempotent_key text not null,
    error_reason text,
    stats jsonb not null default '{}',
    constraint ingest_batch_number unique (run_id, batch_no)
);

comment on column ferryman.ingest_batch.idempotent_key is 'Its position in the slice: a later attempt meets it too.';

-- By its hash: a position may be a whole address, longer than an index entry can be.
create unique index ingest_batch_position on ferryman.ingest_batch (run_id, md5(before_token));
-- One batch at a time, and one that succeeded for ever, at each position of a slice; a failed one frees it.
create unique index ingest_batch_key on ferryman.ingest_batch (idempotent_key) where status in ('RUNNING', 'SUCCEEDED');
create index ingest_batch_open on ferryman.ingest_batch (ends_by) where ends_by is not null;
create index ingest_batch_task on ferryman.ingest_batch (task_id, committed_at);

create table ferryman.ingest_quarantine (
    batch_id uuid not null references ferryman.ingest_batch (id),
    item_no integer not null,
    created_at timestamptz not null,
    tenant text not null,
    source text not null,
    endpoint text not null,
    reason text not null,
    item jsonb not null,
    primary key (batch_id, item_no)
);

create index ingest_quarantine_source on ferryman.ingest_quarantine (tenant, source, created_at);

create table ferryman.ingest_cursor (
    id uuid primary key,
    last_event uuid not null,
    position bigint not null,
    counts_from timestamptz not null default '-infinity',
    created_at timestamptz not null,
    updated_at timestamptz not null,
    rewinds integer not null default 0,
    tenant text not null,
    source text not null,
    endpoint text not null,
    operation text not null,
    scope text not null,
    scope_key text not null,
    kind text not null,
    constraint ingest_cursor_name unique (tenant, source, endpoint, operation, scope, scope_key, kind),
    constraint ingest_cursor_scope_known check (scope in ('GLOBAL', 'EXPR', 'CUSTOM')),
    constraint ingest_cursor_kind_known check (kind in ('TIME', 'ID'))
);

comment on column ferryman.ingest_cursor.position is 'Everything before it has been fetched: microseconds of an instant, or an id.';
comment on column ferryman.ingest_cursor.counts_from is 'Slices made before it, which a rewind took back, are no coverage.';

create table ferryman.ingest_cursor_event (
    id uuid primary key,
    cursor_id uuid not null,
    seq bigint generated always as identity,
    at timestamptz not null,
    prev_position bigint,
    new_position bigint not null,
    plan_id uuid,
    slice_id uuid,
    task_id uuid,
    run_id uuid,
    batch_id uuid,
    tenant text not null,
    kind text not null,
    idempotent_key text not null,
    reason text,
    constraint ingest_cursor_event_key unique (cursor_id, idempotent_key),
    constraint ingest_cursor_event_direction check (
        case kind
            when 'begin' then prev_position is null
            when 'forward' then prev_position is not null and new_position > prev_position
            when 'no-forward' then prev_position is not null and new_position <= prev_position
            when 'rewind' then prev_position is not null and new_position < prev_position and reason is not null
            else false
        end)
);

create index ingest_cursor_event_order on ferryman.ingest_cursor_event (cursor_id, seq);

create trigger ingest_cursor_event_append_only before update or delete or truncate on ferryman.ingest_cursor_event
    for each statement execute function ferryman.refuse_rewriting();

-- A cursor is where its last event says, and an event that goes back is a rewind with a reason: nothing else moves it.
create function ferryman.refuse_cursor() returns trigger
language plpgsql
set search_path = pg_catalog
as $$
begin
    perform from ferryman.ingest_cursor_event as event
    where event.id = new.last_event
      and event.cursor_id = new.id
      and event.new_position = new.position
      and event.kind <> 'no-forward'
      and event.prev_position is not distinct from case tg_op when 'UPDATE' then old.position end;
    if not found then
        raise exception using
            errcode = 'FM003',
            message = 'INGEST_CURSOR_REFUSED',
            detail = jsonb_build_object('id', new.id, 'to', new.position)::text,
            hint = 'A cursor moves after its event, forward, and by compare-and-set.';
    end if;
    return new;
end
$$;

create trigger ingest_cursor_births before insert on ferryman.ingest_cursor
    for each row execute function ferryman.refuse_cursor();
create trigger ingest_cursor_moves before update of position on ferryman.ingest_cursor
    for each row execute function ferryman.refuse_cursor();

-- The guards, as declared in ingest/states.py.
alter table ferryman.ingest_plan add constraint ingest_plan_status_known
    check (status in ('DRAFT', 'SLICING', 'READY', 'PARTIAL', 'FAILED'));

alter table ferryman.ingest_plan add constraint ingest_plan_finished_at_present
    check ((status in ('READY', 'PARTIAL', 'FAILED')) = (finished_at is not null));

create trigger ingest_plan_status_moves
before update of status on ferryman.ingest_plan
for each row
when (((old.status, new.status) in (('DRAFT', 'FAILED'), ('DRAFT', 'SLICING'), ('SLICING', 'FAILED'), ('SLICING', 'PARTIAL'), ('SLICING', 'READY'))) is not true)
execute function ferryman.refuse_move('INGEST_INVALID_TRANSITION', 'status', 'id');

create trigger ingest_plan_status_births
before insert on ferryman.ingest_plan
for each row
when ((new.status in ('DRAFT')) is not true)
execute function ferryman.refuse_move('INGEST_INVALID_TRANSITION', 'status', 'id');

alter table ferryman.ingest_slice add constraint ingest_slice_status_known
    check (status in ('PENDING', 'READY', 'FAILED'));

create trigger ingest_slice_status_moves
before update of status on ferryman.ingest_slice
for each row
when (((old.status, new.status) in (('PENDING', 'FAILED'), ('PENDING', 'READY'))) is not true)
execute function ferryman.refuse_move('INGEST_INVALID_TRANSITION', 'status', 'id');

create trigger ingest_slice_status_births
before insert on ferryman.ingest_slice
for each row
when ((new.status in ('PENDING')) is not true)
execute function ferryman.refuse_move('INGEST_INVALID_TRANSITION', 'status', 'id');

alter table ferryman.ingest_task add constraint ingest_task_status_known
    check (status in ('QUEUED', 'DISPATCHED', 'EXECUTING', 'SUCCEEDED', 'FAILED', 'PARTIAL', 'CANCELLED'));

alter table ferryman.ingest_task add constraint ingest_task_lease_owner_present
    check ((status in ('DISPATCHED', 'EXECUTING')) = (lease_owner is not null));

alter table ferryman.ingest_task add constraint ingest_task_leased_until_present
    check ((status in ('DISPATCHED', 'EXECUTING')) = (leased_until is not null));

alter table ferryman.ingest_task add constraint ingest_task_rank_present
    check ((status in ('QUEUED')) = (rank is not null));

alter table ferryman.ingest_task add constraint ingest_task_finished_at_present
    check ((status in ('SUCCEEDED', 'FAILED', 'PARTIAL', 'CANCELLED')) = (finished_at is not null));

create trigger ingest_task_status_moves
before update of status on ferryman.ingest_task
for each row
when (((old.status, new.status) in (('DISPATCHED', 'CANCELLED'), ('DISPATCHED', 'EXECUTING'), ('DISPATCHED', 'FAILED'), ('DISPATCHED', 'QUEUED'), ('EXECUTING', 'CANCELLED'), ('EXECUTING', 'FAILED'), ('EXECUTING', 'PARTIAL'), ('EXECUTING', 'QUEUED'), ('EXECUTING', 'SUCCEEDED'), ('QUEUED', 'CANCELLED'), ('QUEUED', 'DISPATCHED'))) is not true)
execute function ferryman.refuse_move('INGEST_INVALID_TRANSITION', 'status', 'id');

create trigger ingest_task_status_births
before insert on ferryman.ingest_task
for each row
when ((new.status in ('QUEUED')) is not true)
execute function ferryman.refuse_move('INGEST_INVALID_TRANSITION', 'status', 'id');

alter table ferryman.ingest_run add constraint ingest_run_status_known
    check (status in ('PLANNED', 'RUNNING', 'SUCCEEDED', 'FAILED', 'PARTIAL', 'CANCELLED'));

alter table ferryman.ingest_run add constraint ingest_run_leased_until_present
    check ((status in ('PLANNED', 'RUNNING')) = (leased_until is not null));

alter table ferryman.ingest_run add constraint ingest_run_finished_at_present
    check ((status in ('SUCCEEDED', 'FAILED', 'PARTIAL', 'CANCELLED')) = (finished_at is not null));

create trigger ingest_run_status_moves
before update of status on ferryman.ingest_run
for each row
when (((old.status, new.status) in (('PLANNED', 'CANCELLED'), ('PLANNED', 'FAILED'), ('PLANNED', 'RUNNING'), ('RUNNING', 'CANCELLED'), ('RUNNING', 'FAILED'), ('RUNNING', 'PARTIAL'), ('RUNNING', 'SUCCEEDED'))) is not true)
execute function ferryman.refuse_move('INGEST_INVALID_TRANSITION', 'status', 'id');

create trigger ingest_run_status_births
before insert on ferryman.ingest_run
for each row
when ((new.status in ('PLANNED')) is not true)
execute function ferryman.refuse_move('INGEST_INVALID_TRANSITION', 'status', 'id');

alter table ferryman.ingest_batch add constraint ingest_batch_status_known
    check (status in ('RUNNING', 'SUCCEEDED', 'FAILED', 'SKIPPED'));

alter table ferryman.ingest_batch add constraint ingest_batch_ends_by_present
    check ((status in ('RUNNING')) = (ends_by is not null));

alter table ferryman.ingest_batch add constraint ingest_batch_committed_at_present
    check ((status in ('SUCCEEDED')) = (committed_at is not null));

create trigger ingest_batch_status_moves
before update of status on ferryman.ingest_batch
for each row
when (((old.status, new.status) in (('RUNNING', 'FAILED'), ('RUNNING', 'SKIPPED'), ('RUNNING', 'SUCCEEDED'))) is not true)
execute function ferryman.refuse_move('INGEST_INVALID_TRANSITION', 'status', 'id');

create trigger ingest_batch_status_births
before insert on ferryman.ingest_batch
for each row
when ((new.status in ('RUNNING')) is not true)
execute function ferryman.refuse_move('INGEST_INVALID_TRANSITION', 'status', 'id');


create view ferryman.bounds_ingest as
select 'ingest_plan'::text as domain, plan.id, plan.tenant, plan.status as state, 'I1'::text as rule, plan.ends_at as ends_by,
       plan.ends_at + ferryman.slack() as terminal_by
from ferryman.ingest_plan as plan
where plan.finished_at is null
union all
select 'ingest_slice', slice.id, slice.tenant, slice.status, 'I3', slice.ends_at, slice.ends_at + ferryman.slack()
from ferryman.ingest_slice as slice
where slice.status = 'PENDING'
union all
-- A run that began just before the end may use its budget, one last batch and the margin.
select 'ingest_task', task.id, task.tenant, task.status, 'I5', task.ends_at,
       task.ends_at + make_interval(secs => task.max_seconds) + interval '11 min' + ferryman.slack()
from ferryman.ingest_task as task
where task.rank is not null
union all
select 'ingest_task', task.id, task.tenant, task.status, 'W15', task.leased_until,
       task.ends_at + make_interval(secs => task.max_seconds) + interval '11 min' + ferryman.slack()
from ferryman.ingest_task as task
where task.leased_until is not null
union all
select 'ingest_run', run.id, run.tenant, run.status, 'W15', run.leased_until,
       run.planned_at + make_interval(secs => task.max_seconds) + interval '11 min' + ferryman.slack()
from ferryman.ingest_run as run
join ferryman.ingest_task as task on task.id = run.task_id
where run.leased_until is not null
union all
select 'ingest_batch', batch.id, batch.tenant, batch.status, 'W15', batch.ends_by, batch.ends_by + ferryman.slack()
from ferryman.ingest_batch as batch
where batch.ends_by is not null;

comment on view ferryman.bounds_ingest is 'Everything live in ingestion, the rule that ends it, and by when.';

create view ferryman.overdue_ingest as
with edge as materialized (
    select ferryman.late_before() as late_before
)
select 'ingest_slice'::text as domain, slice.id, slice.tenant, slice.status as state, 'I3'::text as rule, slice.ends_at as ends_by
from ferryman.ingest_slice as slice
where slice.status = 'PENDING'
  and slice.ends_at > '-infinity'
  and slice.ends_at < (select late_before from edge)
union all
select 'ingest_task', task.id, task.tenant, task.status, 'I5', task.ends_at
from ferryman.ingest_task as task
where task.rank is not null
  and task.ends_at > '-infinity'
  and task.ends_at < (select late_before from edge)
union all
select 'ingest_task', task.id, task.tenant, task.status, 'W15', task.leased_until
from ferryman.ingest_task as task
where task.leased_until > '-infinity'
  and task.leased_until < (select late_before from edge)
union all
select 'ingest_run', run.id, run.tenant, run.status, 'W15', run.leased_until
from ferryman.ingest_run as run
where run.leased_until > '-infinity'
  and run.leased_until < (select late_before from edge)
union all
select 'ingest_batch', batch.id, batch.tenant, batch.status, 'W15', batch.ends_by
from ferryman.ingest_batch as batch
where batch.ends_by > '-infinity'
  and batch.ends_by < (select late_before from edge);

comment on view ferryman.overdue_ingest is 'What in ingestion is past the time by which a rule should have acted on it.';

select ferryman.unite_bounds();
