-- The log to the outside (K10): who publishes it, the webhooks it is sent to, and one delivery for each event and webhook.

-- Who publishes for a consumer whose effect is outside of the database. Its place stays in `consumers`.
create table ferryman.relays (
    name text primary key,
    epoch bigint not null default 0,
    leased_until timestamptz,
    lease_owner uuid,
    constraint relays_lease_whole check (num_nonnulls(leased_until, lease_owner) in (0, 2))
);

create table ferryman.webhooks (
    id uuid primary key,
    after_id bigint not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    rotated_at timestamptz,
    disabled_at timestamptz,
    secret_version integer not null default 1,
    state text not null,
    tenant text not null,
    name text,
    url text not null,
    key_id text not null,
    kinds text[],
    constraint webhooks_kinds_some check (cardinality(kinds) > 0)
);

comment on column ferryman.webhooks.after_id is 'The end of the log when it was added: what came before is not sent.';
comment on column ferryman.webhooks.kinds is 'What is sent: kinds of events, or kind.state. Null: everything.';
comment on column ferryman.webhooks.key_id is 'Tells which key the secret comes from; neither key nor secret is stored.';
comment on column ferryman.webhooks.rotated_at is 'Since when secret_version counts; for a day the one before signs too.';

create index webhooks_tenant on ferryman.webhooks (tenant, id);
-- A name is free again when its webhook is disabled.
create unique index webhooks_name on ferryman.webhooks (tenant, name) where name is not null and disabled_at is null;

create table ferryman.webhook_deliveries (
    id uuid primary key,
    webhook_id uuid not null references ferryman.webhooks,
    event_id bigint not null,
    epoch bigint not null default 0,
    next_at timestamptz not null,
    ends_at timestamptz not null,
    leased_until timestamptz,
    created_at timestamptz not null,
    finished_at timestamptz,
    lease_owner uuid,
    retry_of uuid,
    attempts integer not null default 0,
    last_status integer,
    state text not null,
    tenant text not null,
    kind text not null,
    last_error text,
    body text not null,
    constraint webhook_deliveries_lease_whole check (num_nonnulls(leased_until, lease_owner) in (0, 2)),
    constraint webhook_deliveries_lease_live check (leased_until is null or finished_at is null),
    constraint webhook_deliveries_ends_at_finite check (isfinite(ends_at))
);

comment on column ferryman.webhook_deliveries.next_at is 'From when it may be claimed. While it is leased: when the lease ends.';
comment on column ferryman.webhook_deliveries.retry_of is 'The dead delivery that this one tries anew.';
comment on column ferryman.webhook_deliveries.body is 'What is sent, to the byte: each try sends the same.';

-- One event, one webhook, one delivery; and a dead one is tried anew once.
create unique index webhook_deliveries_once on ferryman.webhook_deliveries (webhook_id, event_id) where retry_of is null;
create unique index webhook_deliveries_retry_of on ferryman.webhook_deliveries (retry_of) where retry_of is not null;
-- What a webhook is owed, and what is under way to it.
create index webhook_deliveries_due on ferryman.webhook_deliveries (webhook_id, next_at) where finished_at is null;
create index webhook_deliveries_leased on ferryman.webhook_deliveries (webhook_id, leased_until)
    where leased_until is not null;
-- What the watchdog ends, and what leaves when it has been kept for long enough.
create index webhook_deliveries_ends_at on ferryman.webhook_deliveries (ends_at) where finished_at is null;
create index webhook_deliveries_finished on ferryman.webhook_deliveries (finished_at) where finished_at is not null;
-- The newest of a webhook first, for people.
create index webhook_deliveries_webhook on ferryman.webhook_deliveries (webhook_id, id);

-- The guards, as declared in relays/states.py.
alter table ferryman.webhooks add constraint webhooks_state_known
    check (state in ('active', 'paused', 'disabled'));

alter table ferryman.webhooks add constraint webhooks_disabled_at_present
    check ((state in ('disabled')) = (disabled_at is not null));

create trigger webhooks_state_moves
before update of state on ferryman.webhooks
for each row
when (((old.state, new.state) in (('active', 'disabled'), ('active', 'paused'), ('paused', 'active'), ('paused', 'disabled'))) is not true)
execute function ferryman.refuse_move('WEBHOOK_INVALID_TRANSITION', 'state', 'id');

create trigger webhooks_state_births
before insert on ferryman.webhooks
for each row
when ((new.state in ('active')) is not true)
execute function ferryman.refuse_move('WEBHOOK_INVALID_TRANSITION', 'state', 'id');

alter table ferryman.webhook_deliveries add constraint webhook_deliveries_state_known
    check (state in ('pending', 'delivered', 'dead'));

alter table ferryman.webhook_deliveries add constraint webhook_deliveries_finished_at_present
    check ((state in ('delivered', 'dead')) = (finished_at is not null));

create trigger webhook_deliveries_state_moves
before update of state on ferryman.webhook_deliveries
for each row
when (((old.state, new.state) in (('pending', 'dead'), ('pending', 'delivered'))) is not true)
execute function ferryman.refuse_move('DELIVERY_INVALID_TRANSITION', 'state', 'id');

create trigger webhook_deliveries_state_births
before insert on ferryman.webhook_deliveries
for each row
when ((new.state in ('pending')) is not true)
execute function ferryman.refuse_move('DELIVERY_INVALID_TRANSITION', 'state', 'id');

-- K21: what ends a delivery. A try that began just before its end may use the time of its lease.
create view ferryman.bounds_relays as
select 'delivery'::text as domain, delivery.id, delivery.tenant, delivery.state, 'K10-dead'::text as rule,
       greatest(delivery.ends_at, delivery.leased_until) as ends_by,
       greatest(delivery.ends_at, delivery.leased_until) + ferryman.slack() as terminal_by
from ferryman.webhook_deliveries as delivery
where delivery.finished_at is null;

comment on view ferryman.bounds_relays is 'Every delivery that is owed, the rule that ends it, and by when.';

create view ferryman.overdue_relays as
with edge as materialized (
    select ferryman.late_before() as late_before
)
select 'delivery'::text as domain, delivery.id, delivery.tenant, delivery.state, 'K10-dead'::text as rule,
       greatest(delivery.ends_at, delivery.leased_until) as ends_by
from ferryman.webhook_deliveries as delivery
where delivery.ends_at > '-infinity'
  and delivery.ends_at < (select late_before from edge)
  and delivery.finished_at is null
  and (delivery.leased_until is null or delivery.leased_until < (select late_before from edge));

comment on view ferryman.overdue_relays is 'Deliveries past the time by which a rule should have ended them.';

select ferryman.unite_bounds();

-- K22: why an event has not reached its webhook.
create function ferryman.explained_webhook_deliveries(id uuid) returns jsonb
language sql stable as $$
    select jsonb_build_object(
        'domain', 'delivery', 'id', delivery.id, 'tenant', delivery.tenant, 'webhook', delivery.webhook_id,
        'event_id', 'evt_' || delivery.event_id, 'state', delivery.state, 'attempt', delivery.attempts,
        'doing', case when delivery.state = 'delivered' then 'It was delivered.'
                      when delivery.state = 'dead' then 'It is dead.'
                      when delivery.leased_until > ferryman.clock() then format('It is being sent, try %s.', delivery.attempts)
                      else 'It waits to be sent.' end)
    from ferryman.webhook_deliveries as delivery
    where delivery.id = explained_webhook_deliveries.id
$$;

create function ferryman.reasons_webhook_deliveries(id uuid)
returns table (code text, says text, until timestamptz, about jsonb)
language sql stable as $$
    with owed as materialized (
        select delivery.*, webhook.state as webhook_state, webhook.updated_at as webhook_since, webhook.url,
               delivery.leased_until > ferryman.clock() as sending
        from ferryman.webhook_deliveries as delivery
        join ferryman.webhooks as webhook on webhook.id = delivery.webhook_id
        where delivery.id = reasons_webhook_deliveries.id
    )
    select 'webhook_paused', format('Its webhook is paused since %s.', ferryman.spelled(owed.webhook_since)), null::timestamptz,
           jsonb_build_object('url', owed.url)
    from owed
    where owed.webhook_state = 'paused' and owed.finished_at is null
    union all
    select 'webhook_removed', 'Its webhook was removed while it was being sent.', null, jsonb_build_object('url', owed.url)
    from owed
    where owed.webhook_state = 'disabled' and owed.finished_at is null
    union all
    select 'last_try_failed', format('Try %s failed: %s.', owed.attempts, owed.last_error), null,
           jsonb_build_object('url', owed.url, 'status', owed.last_status)
    from owed
    where owed.last_error is not null
    union all
    select 'backing_off', format('It is tried again at %s.', ferryman.spelled(owed.next_at)), owed.next_at, '{}'
    from owed
    where owed.finished_at is null and owed.sending is not true and owed.next_at > ferryman.clock()
    union all
    select 'due', 'It is due: a worker with relays.webhook_key sends it when its receiver has room.', null,
           jsonb_build_object('url', owed.url)
    from owed
    where owed.finished_at is null and owed.sending is not true and owed.next_at <= ferryman.clock()
      and owed.webhook_state = 'active'
$$;
