-- pending -> processing
with clock as materialized (
    select ferryman.clock() as now
),
held as materialized (
    select message.tenant, message.id
    from (select given.tenant, given.id
          from unnest((select :tenants::text[]), (select :ids::uuid[])) as given (tenant, id)
          limit (select 1000000)) as word
    join ferryman.agent_inbox as message on message.id = word.id
    where message.tenant = word.tenant
      and message.status = 'pending'
    order by message.tenant, message.id
    for update of message skip locked
)
update ferryman.agent_inbox as message
set status = 'processing', pending_at = null, processed_at = clock.now
from clock, held
where message.id = held.id
  and message.status = 'pending'
returning message.id
