-- Durable execution: what a task remembers of itself, what it waits for while it is parked, and what was sent to it.

-- Said of a running task when something has come that it may be about to wait for. Parking reads it from the row that it has
-- just locked, so that nothing gets lost between a look at other tables and the lock.
alter table ferryman.tasks add column roused boolean;
comment on column ferryman.tasks.roused is 'Something has come while it ran: the next park does not wait. Null: nothing.';

-- One row for each durable call of a handler, by its name and how often the name was called before. A call whose answer is
-- still to come is open: a sleep, a wait for an event, a child.
create table ferryman.task_steps (
    task uuid not null references ferryman.tasks (id) on delete cascade,
    child uuid,
    at timestamptz not null,
    until timestamptz,
    nth integer not null,
    position integer,
    kind text not null check (kind in ('step', 'sleep', 'event', 'child')),
    name text not null,
    state text not null check (state in ('open', 'done', 'failed')),
    result jsonb,
    primary key (task, kind, name, nth),
    constraint task_steps_open check (state <> 'open' or num_nonnulls(child, until) = 1)
);
comment on column ferryman.task_steps.position is 'Its place among the calls made in sequence. Null: made in a parallel branch.';

-- The children that live, and nothing else: how an end finds the call that waits for it.
create index task_steps_children on ferryman.task_steps (child) where child is not null and state = 'open';

-- What a parked task waits for, beside a time. Holds for the claim that parked it: a later claim makes it void.
create table ferryman.task_waits (
    task uuid primary key references ferryman.tasks (id) on delete cascade,
    epoch bigint not null,
    open integer,
    children uuid[] not null,
    names text[] not null,
    check ((open is null) = (children = '{}'))
) with (fillfactor = 50);
comment on column ferryman.task_waits.open is 'How many of the children must end before it goes on. Null: it waits for none.';

-- Events sent to a task that no wait has taken yet.
create table ferryman.task_signals (
    id bigint generated always as identity primary key,
    task uuid not null references ferryman.tasks (id) on delete cascade,
    at timestamptz not null,
    name text not null,
    payload jsonb
);
create index task_signals_task on ferryman.task_signals (task, name, id);
