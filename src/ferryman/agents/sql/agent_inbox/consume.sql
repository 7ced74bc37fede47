-- processing -> consumed
with clock as materialized (
    select ferryman.clock() as now
)
update ferryman.agent_inbox as message
set status = 'consumed', processed_at = null, archived_at = clock.now
from clock, (select given.tenant, given.id
             from unnest((select :tenants::text[]), (select :ids::uuid[])) as given (tenant, id)
             limit (select 1000000)) as word
where message.tenant = word.tenant
  and message.id = word.id
  and message.status = 'processing'
returning message.id
