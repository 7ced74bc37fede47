-- Agents: durable identities that do one turn at a time, their inbox, what their turns wait for, and what they wrote.

-- A8: facts, never changed. A box is an ordered list of them.
create table ferryman.cards (
    id uuid primary key,
    tenant text not null,
    created_at timestamptz not null,
    agent_turn_id uuid,
    step_id uuid,
    type text not null,
    role text not null,
    author_id text not null,
    tool_call_id text,
    content jsonb not null,
    metadata jsonb
);

create function ferryman.refuse_card_change() returns trigger
language plpgsql as $$
begin
    raise exception using
        errcode = 'FM003',
        message = 'CARD_IMMUTABLE',
        hint = 'A card is a fact: write another one.';
end
$$;

create trigger cards_immutable before update or truncate on ferryman.cards
    for each statement execute function ferryman.refuse_card_change();

create table ferryman.boxes (
    id uuid primary key,
    tenant text not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    card_ids uuid[] not null default '{}'
);

-- Who an agent is. What it does at the moment is its head.
create table ferryman.agents (
    id uuid primary key,
    tenant text not null,
    agent_id text not null,
    created_at timestamptz not null,
    profile text not null,
    worker_target text not null default 'default',
    when_busy text not null default 'enqueue' check (when_busy in ('enqueue', 'reject', 'interrupt', 'merge')),
    derived_from text,
    tags text[] not null default '{}',
    metadata jsonb not null default '{}',
    unique (tenant, agent_id)
);

-- The id is the agent's. Everything behind the doors finds a head by it or by its turn: keys that begin with the tenant would let
-- the planner read all of a tenant's rows where it knows no better.
create table ferryman.agent_state_head (
    id uuid primary key,
    tenant text not null,
    agent_id text not null,
    updated_at timestamptz not null,
    since_at timestamptz not null,
    ready_at timestamptz,
    dispatch_deadline timestamptz,
    leased_until timestamptz,
    resume_deadline timestamptz,
    turn_deadline timestamptz,
    started_at timestamptz,
    retried_at timestamptz,
    turn_epoch bigint not null default 0,
    active_recursion_depth integer,
    waiting_tool_count integer not null default 0 check (waiting_tool_count >= 0),
    dispatch_retries integer not null default 0,
    lease_owner uuid,
    active_agent_turn_id uuid,
    active_inbox_id uuid,
    parent_step_id uuid,
    context_box_id uuid,
    output_box_id uuid,
    last_output_box_id uuid,
    budget_id uuid,
    status text not null default 'idle',
    profile text not null,
    worker_target text not null default 'default',
    active_channel_id text,
    callback text,
    callback_ref text,
    traceparent text,
    unique (tenant, agent_id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

comment on column ferryman.agent_state_head.since_at is 'Since when in this status; no retry moves it.';
comment on column ferryman.agent_state_head.ready_at is 'Since when a worker may take the turn in hand. Null: it is in hand, or waits, or there is none.';
comment on column ferryman.agent_state_head.turn_epoch is 'The fence: compared by every write of a holder.';
comment on column ferryman.agent_state_head.turn_deadline is 'The end of the turn''s wall time (A18).';

-- The one index that claiming reads, and in which a dispatch that nobody picks up is found.
create index agent_state_head_ready on ferryman.agent_state_head (ready_at) where ready_at is not null;
create index agent_state_head_leased on ferryman.agent_state_head (leased_until) where leased_until is not null;
create index agent_state_head_resume on ferryman.agent_state_head (resume_deadline) where resume_deadline is not null;
-- A3: a turn is active in one place at most.
create unique index agent_state_head_turn on ferryman.agent_state_head (active_agent_turn_id) where active_agent_turn_id is not null;

-- A4. A turn is the row whose id is its agent_turn_id; how it ended stands there (K7).
create table ferryman.agent_inbox (
    id uuid primary key,
    tenant text not null,
    created_at timestamptz not null,
    look_at timestamptz not null,
    ends_at timestamptz not null,
    pending_at timestamptz,
    processed_at timestamptz,
    archived_at timestamptz,
    watchdog_at timestamptz,
    ended_at timestamptz,
    turn_epoch bigint,
    wall_ms bigint,
    recursion_depth integer not null default 0,
    requeue_count integer not null default 0,
    agent_turn_id uuid,
    merged_into uuid,
    context_box_id uuid,
    output_box_id uuid,
    card_id uuid,
    deliverable_card_id uuid,
    tool_result_card_id uuid,
    parent_step_id uuid,
    source_turn_id uuid,
    source_step_id uuid,
    budget_id uuid,
    agent_id text not null,
    message_type text not null,
    correlation_id text not null,
    status text not null,
    channel_id text,
    source_agent_id text,
    tool_call_id text,
    callback text,
    callback_ref text,
    traceparent text,
    turn_status text check (turn_status in ('success', 'failed', 'canceled', 'timeout', 'partial')),
    error_code text,
    error text,
    watchdog_error text,
    payload jsonb not null default '{}'
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

comment on column ferryman.agent_inbox.look_at is 'When the watchdog looks at a live message next.';
comment on column ferryman.agent_inbox.ends_at is 'By when a live message is ended, whatever happens.';

create unique index agent_inbox_correlation on ferryman.agent_inbox (tenant, message_type, correlation_id);
create index agent_inbox_open on ferryman.agent_inbox (tenant, agent_id, created_at, id) where archived_at is null;
create index agent_inbox_look on ferryman.agent_inbox (look_at) where archived_at is null;

-- A11: one row for each call that a suspended turn waits for, each with a clock of its own.
create table ferryman.turn_waiting_tools (
    tenant text not null,
    tool_call_id text not null,
    created_at timestamptz not null,
    deadline_at timestamptz not null,
    ends_at timestamptz not null,
    received_at timestamptz,
    applied_at timestamptz,
    turn_epoch bigint not null,
    nth integer not null default 1,
    agent_turn_id uuid not null,
    step_id uuid,
    task_id uuid,
    tool_call_card_id uuid not null,
    tool_result_card_id uuid,
    agent_id text not null,
    tool_name text not null,
    wait_status text not null default 'waiting',
    after_execution text not null default 'suspend' check (after_execution in ('suspend', 'terminate')),
    primary key (tenant, tool_call_id)
);
create index turn_waiting_tools_turn on ferryman.turn_waiting_tools (agent_turn_id, created_at, tool_call_id);
create index turn_waiting_tools_late on ferryman.turn_waiting_tools (deadline_at) where wait_status = 'waiting';

-- A12: results on their way into the turns that waited for them.
create table ferryman.turn_resume_ledger (
    tenant text not null,
    tool_call_id text not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    ends_at timestamptz not null,
    lease_expires_at timestamptz,
    turn_epoch bigint not null,
    attempt_count integer not null default 0,
    agent_turn_id uuid not null,
    lease_owner uuid,
    tool_result_card_id uuid not null,
    agent_id text not null,
    status text not null default 'pending',
    last_error text,
    primary key (tenant, tool_call_id)
);
create index turn_resume_ledger_turn on ferryman.turn_resume_ledger (agent_turn_id)
    where status in ('pending', 'processing');
create index turn_resume_ledger_leased on ferryman.turn_resume_ledger (lease_expires_at) where lease_expires_at is not null;

-- A17: what a turn did, in order; what a step came to is remembered for the replay.
create table ferryman.agent_steps (
    tenant text not null,
    agent_turn_id uuid not null,
    kind text not null,
    name text not null,
    nth integer not null default 1,
    id uuid not null,
    started_at timestamptz not null,
    ended_at timestamptz,
    turn_epoch bigint not null,
    input_tokens bigint,
    output_tokens bigint,
    cost numeric,
    agent_id text not null,
    status text not null check (status in ('started', 'suspended', 'completed', 'failed')),
    error text,
    tool_call_ids text[] not null default '{}',
    result jsonb,
    metadata jsonb,
    primary key (tenant, agent_turn_id, kind, name, nth)
);

-- A6: who asked whom.
create table ferryman.execution_edges (
    tenant text not null,
    correlation_id text not null,
    primitive text not null check (primitive in ('enqueue', 'report', 'join', 'cancel', 'wakeup')),
    edge_phase text not null check (edge_phase in ('request', 'response')),
    id uuid not null,
    created_at timestamptz not null,
    recursion_depth integer not null,
    source_turn_id uuid,
    source_step_id uuid,
    target_turn_id uuid,
    source_agent_id text,
    target_agent_id text,
    metadata jsonb,
    primary key (tenant, correlation_id, primitive, edge_phase)
);
create index execution_edges_source on ferryman.execution_edges (tenant, source_turn_id) where source_turn_id is not null;

-- A21: one budget for a whole tree of turns. What is reserved stands in rows of its own, so that the end of a turn frees it.
create table ferryman.budgets (
    tenant text not null,
    id uuid not null,
    created_at timestamptz not null,
    tokens_limit bigint,
    tokens_spent bigint not null default 0,
    tool_calls_limit bigint,
    tool_calls_spent bigint not null default 0,
    cost_limit numeric,
    cost_spent numeric not null default 0,
    primary key (tenant, id)
);

create table ferryman.budget_reservations (
    tenant text not null,
    budget_id uuid not null,
    agent_turn_id uuid not null,
    name text not null,
    created_at timestamptz not null,
    tokens bigint not null default 0,
    tool_calls bigint not null default 0,
    cost numeric not null default 0,
    primary key (tenant, agent_turn_id, budget_id, name)
);
create index budget_reservations_budget on ferryman.budget_reservations (tenant, budget_id);

-- The guards, as declared in agents/states.py.
alter table ferryman.agent_state_head add constraint agent_state_head_status_known
    check (status in ('idle', 'dispatched', 'running', 'suspended'));

alter table ferryman.agent_state_head add constraint agent_state_head_active_agent_turn_id_present
    check ((status in ('dispatched', 'running', 'suspended')) = (active_agent_turn_id is not null));

alter table ferryman.agent_state_head add constraint agent_state_head_active_inbox_id_present
    check ((status in ('dispatched', 'running', 'suspended')) = (active_inbox_id is not null));

alter table ferryman.agent_state_head add constraint agent_state_head_output_box_id_present
    check ((status in ('dispatched', 'running', 'suspended')) = (output_box_id is not null));

alter table ferryman.agent_state_head add constraint agent_state_head_turn_deadline_present
    check ((status in ('dispatched', 'running', 'suspended')) = (turn_deadline is not null));

alter table ferryman.agent_state_head add constraint agent_state_head_dispatch_deadline_present
    check ((status in ('dispatched')) = (dispatch_deadline is not null));

alter table ferryman.agent_state_head add constraint agent_state_head_leased_until_present
    check ((status in ('running')) = (leased_until is not null));

alter table ferryman.agent_state_head add constraint agent_state_head_lease_owner_present
    check ((status in ('running')) = (lease_owner is not null));

alter table ferryman.agent_state_head add constraint agent_state_head_resume_deadline_present
    check ((status in ('suspended')) = (resume_deadline is not null));

create trigger agent_state_head_status_moves
before update of status on ferryman.agent_state_head
for each row
when (((old.status, new.status) in (('dispatched', 'idle'), ('dispatched', 'running'), ('idle', 'dispatched'), ('running', 'idle'), ('running', 'suspended'), ('suspended', 'idle'), ('suspended', 'running'))) is not true)
execute function ferryman.refuse_move('AGENT_INVALID_TRANSITION', 'status', 'agent_id');

create trigger agent_state_head_status_births
before insert on ferryman.agent_state_head
for each row
when ((new.status in ('idle')) is not true)
execute function ferryman.refuse_move('AGENT_INVALID_TRANSITION', 'status', 'agent_id');

alter table ferryman.agent_inbox add constraint agent_inbox_status_known
    check (status in ('queued', 'pending', 'processing', 'consumed', 'error', 'skipped'));

alter table ferryman.agent_inbox add constraint agent_inbox_pending_at_present
    check ((status in ('pending')) = (pending_at is not null));

alter table ferryman.agent_inbox add constraint agent_inbox_processed_at_present
    check ((status in ('processing')) = (processed_at is not null));

alter table ferryman.agent_inbox add constraint agent_inbox_archived_at_present
    check ((status in ('consumed', 'error', 'skipped')) = (archived_at is not null));

create trigger agent_inbox_status_moves
before update of status on ferryman.agent_inbox
for each row
when (((old.status, new.status) in (('pending', 'error'), ('pending', 'processing'), ('pending', 'skipped'), ('processing', 'consumed'), ('processing', 'error'), ('processing', 'pending'), ('queued', 'error'), ('queued', 'pending'), ('queued', 'skipped'))) is not true)
execute function ferryman.refuse_move('MESSAGE_INVALID_TRANSITION', 'status', 'id');

create trigger agent_inbox_status_births
before insert on ferryman.agent_inbox
for each row
when ((new.status in ('queued', 'pending', 'processing')) is not true)
execute function ferryman.refuse_move('MESSAGE_INVALID_TRANSITION', 'status', 'id');

alter table ferryman.turn_waiting_tools add constraint turn_waiting_tools_wait_status_known
    check (wait_status in ('waiting', 'received', 'applied', 'expired', 'dropped'));

create trigger turn_waiting_tools_wait_status_moves
before update of wait_status on ferryman.turn_waiting_tools
for each row
when (((old.wait_status, new.wait_status) in (('received', 'applied'), ('received', 'dropped'), ('waiting', 'dropped'), ('waiting', 'expired'), ('waiting', 'received'))) is not true)
execute function ferryman.refuse_move('WAIT_INVALID_TRANSITION', 'wait_status', 'tool_call_id');

create trigger turn_waiting_tools_wait_status_births
before insert on ferryman.turn_waiting_tools
for each row
when ((new.wait_status in ('waiting')) is not true)
execute function ferryman.refuse_move('WAIT_INVALID_TRANSITION', 'wait_status', 'tool_call_id');

alter table ferryman.turn_resume_ledger add constraint turn_resume_ledger_status_known
    check (status in ('pending', 'processing', 'applied', 'dropped'));

alter table ferryman.turn_resume_ledger add constraint turn_resume_ledger_lease_owner_present
    check ((status in ('processing')) = (lease_owner is not null));

alter table ferryman.turn_resume_ledger add constraint turn_resume_ledger_lease_expires_at_present
    check ((status in ('processing')) = (lease_expires_at is not null));

create trigger turn_resume_ledger_status_moves
before update of status on ferryman.turn_resume_ledger
for each row
when (((old.status, new.status) in (('pending', 'applied'), ('pending', 'dropped'), ('pending', 'processing'), ('processing', 'applied'), ('processing', 'dropped'), ('processing', 'pending'))) is not true)
execute function ferryman.refuse_move('RESUME_INVALID_TRANSITION', 'status', 'tool_call_id');

create trigger turn_resume_ledger_status_births
before insert on ferryman.turn_resume_ledger
for each row
when ((new.status in ('pending')) is not true)
execute function ferryman.refuse_move('RESUME_INVALID_TRANSITION', 'status', 'tool_call_id');

-- What nobody holds is ready or waits; what is ready was not taken yet.
alter table ferryman.agent_state_head add constraint agent_state_head_dispatched_is_ready
    check (status <> 'dispatched' or ready_at is not null);
alter table ferryman.agent_state_head add constraint agent_state_head_idle_is_still
    check (status <> 'idle' or (ready_at is null and waiting_tool_count = 0));
