-- ferryman: oldest-code 6
-- Flow control: queues as data, and the columns by which tasks meet their limits. Code that does not know these would claim
-- past them and is not let in any more; so the indexes are made in place, in one transaction.
-- squawk-ignore-file require-concurrent-index-creation, require-concurrent-index-deletion

create table ferryman.queues (
    name text not null,
    tenant text not null default '*',
    weight integer not null default 1,
    concurrency integer,
    key_concurrency integer,
    rate_count integer,
    rate_interval interval,
    burst integer,
    max_depth integer,
    at_limit text not null default 'refuse_newest',
    paused_at timestamptz,
    open_at timestamptz not null default to_timestamp(0),
    declared jsonb,
    created_at timestamptz not null default ferryman.clock(),
    updated_at timestamptz not null default ferryman.clock(),
    -- What every claim and every create asks, so that it is one plain column.
    open boolean not null generated always as
        (paused_at is null and concurrency is null and rate_count is null and max_depth is null) stored,
    primary key (name, tenant),
    constraint queues_weight check (weight between 1 and 1000),
    constraint queues_concurrency check (concurrency > 0),
    constraint queues_key_concurrency check (key_concurrency > 0),
    constraint queues_rate check (
        (rate_count is null) = (rate_interval is null) and (rate_count is null) = (burst is null)
        and rate_count > 0 and rate_interval > '0' and burst > 0),
    constraint queues_max_depth check (max_depth > 0),
    constraint queues_at_limit check (at_limit in ('refuse_newest', 'cancel_oldest', 'coalesce'))
) with (fillfactor = 50);

comment on table ferryman.queues is
    'What is agreed for a queue: for all tenants together (tenant *), and further for one. Absent: no limit.';
comment on column ferryman.queues.open_at is
    'Rate: the time up to which starts are spent. A start is free while it lies less than burst starts ahead of now.';
comment on column ferryman.queues.open is 'Claimed by lanes, without a look at this row''s limits.';
comment on column ferryman.queues.declared is 'What an app last declared; a declaration that has not changed leaves the row alone.';

create table ferryman.paused_names (
    name text primary key,
    paused_at timestamptz not null default ferryman.clock()
);
comment on table ferryman.paused_names is 'Handlers whose waiting tasks no worker takes.';

alter table ferryman.tasks
    add column limit_key text,
    add column slot boolean,
    add column singleton text,
    add column debounce text,
    add column retry_of uuid;

comment on column ferryman.tasks.limit_key is 'Tasks of one queue, tenant and key share key_concurrency slots.';
comment on column ferryman.tasks.slot is 'Claimed through a gate: counted by its limits as long as it is leased.';
comment on column ferryman.tasks.singleton is 'One live task of a tenant for each.';
comment on column ferryman.tasks.debounce is 'One pending task of a tenant for each.';
comment on column ferryman.tasks.retry_of is 'The ended task that somebody tried anew with this one.';

-- Tasks with a key wait in an order of their own, so that lanes never see them.
drop index ferryman.tasks_ready;
create index tasks_ready on ferryman.tasks (queue, tenant, rank, id) where rank is not null and limit_key is null;
create index tasks_keyed on ferryman.tasks (queue, tenant, limit_key, rank, id)
    where rank is not null and limit_key is not null;
-- Who holds a slot: leaves with the lease, so that no settling statement has to know of it.
create index tasks_slots on ferryman.tasks (queue, tenant, limit_key) where slot and leased_until is not null;
create unique index tasks_singleton on ferryman.tasks (tenant, singleton) where singleton is not null and finished_at is null;
create unique index tasks_debounce on ferryman.tasks (tenant, debounce) where debounce is not null and state = 'pending';
create index tasks_retries on ferryman.tasks (retry_of) where retry_of is not null;
create unique index tasks_retry_of on ferryman.tasks (retry_of) where retry_of is not null and finished_at is null;
