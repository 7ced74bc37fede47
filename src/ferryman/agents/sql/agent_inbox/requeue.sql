-- processing -> pending
with clock as materialized (
    select ferryman.clock() as now
),
held as materialized (
    select message.tenant, message.id
    from clock, (select given.tenant, given.id
          from unnest((select :tenants::text[]), (select :ids::uuid[])) as given (tenant, id)
          limit (select 1000000)) as word
    join ferryman.agent_inbox as message on message.id = word.id
    where message.tenant = word.tenant
      and message.status = 'processing'
      and message.processed_at <= clock.now - :patience::interval
    order by message.tenant, message.id
    for update of message skip locked
),
back as (
    update ferryman.agent_inbox as message
    set status = 'pending', pending_at = clock.now, processed_at = null, requeue_count = message.requeue_count + 1,
        look_at = clock.now + :look_after::interval, watchdog_at = clock.now
    from clock, held
    where message.id = held.id
      and message.status = 'processing'
    returning message.tenant, message.id, message.agent_id, message.requeue_count, message.channel_id
),
told as (
    insert into ferryman.events (at, subject, tenant, kind, from_state, to_state, subject_name, reason_code, data)
    select clock.now, back.id, back.tenant, 'agent.message', 'processing', 'pending', back.agent_id, 'processing_timeout',
           jsonb_build_object('channel', back.channel_id, 'requeue_count', back.requeue_count)
    from back, clock
)
select id, tenant, agent_id
from back
