-- (nothing) -> pending
-- The webhooks are held: one that is being removed is passed over, or removed after this, with what is born here.
with clock as materialized (
    select ferryman.clock() as now
),
wanted as materialized (
    select webhook.id
    from ferryman.webhooks as webhook
    where webhook.id = any(:webhooks::uuid[])
      and webhook.state <> 'disabled'
    for key share
),
born as (
    insert into ferryman.webhook_deliveries (
        id, webhook_id, event_id, event_token, tenant, kind, body, state, created_at, next_at, ends_at
    )
    select word.id, word.webhook_id, word.event_id, word.event_token, word.tenant, word.kind, word.body, 'pending',
           clock.now, clock.now, clock.now + :ends_after::interval
    from clock, unnest(
        :ids::uuid[], :webhook_ids::uuid[], :event_ids::bigint[], :event_tokens::bigint[], :tenants::text[], :kinds::text[],
        :bodies::text[]
    ) as word (id, webhook_id, event_id, event_token, tenant, kind, body)
    join wanted on wanted.id = word.webhook_id
    on conflict do nothing
    returning id, tenant, created_at
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, to_state)
    select created_at, id, tenant, 'webhook_delivery', 'pending'
    from born
)
select id
from born
