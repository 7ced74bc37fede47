-- ferryman: no-transaction
-- squawk-ignore-file ban-concurrent-index-creation-in-transaction
-- Each of these statements commits by itself and can be repeated.

-- K10: the number of an event comes again after a promotion or a restore, so a delivery names its event by number and token
-- (kernel/event_id.py). A worker of the previous version stores no token.
create or replace function ferryman.event_token(logged_at timestamptz) returns bigint
language sql stable parallel safe as $$
    select (extract(epoch from logged_at) * 1000000)::bigint
$$;

comment on function ferryman.event_token(timestamptz) is 'What identifies an event together with its id: the microseconds since 1970 at which it was written.';

alter table ferryman.webhook_deliveries add column if not exists event_token bigint not null default 0;

comment on column ferryman.webhook_deliveries.event_token is 'The event_token of the event; 0: stored by a version before 45.';

create unique index concurrently if not exists webhook_deliveries_event
    on ferryman.webhook_deliveries (webhook_id, event_id, event_token) where retry_of is null;

drop index concurrently if exists ferryman.webhook_deliveries_once;

create or replace function ferryman.explained_webhook_deliveries(id uuid) returns jsonb
language sql stable as $$
    select jsonb_build_object(
        'domain', 'delivery', 'id', delivery.id, 'tenant', delivery.tenant, 'webhook', delivery.webhook_id,
        'event_id', 'evt_' || delivery.event_id || case when delivery.event_token > 0 then '-' || to_hex(delivery.event_token) else '' end,
        'state', delivery.state, 'attempt', delivery.attempts,
        'doing', case when delivery.state = 'delivered' then 'It was delivered.'
                      when delivery.state = 'dead' then 'It is dead.'
                      when delivery.leased_until > ferryman.clock() then format('It is being sent, try %s.', delivery.attempts)
                      else 'It waits to be sent.' end)
    from ferryman.webhook_deliveries as delivery
    where delivery.id = explained_webhook_deliveries.id
$$;
