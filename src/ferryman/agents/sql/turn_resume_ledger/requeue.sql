-- processing -> pending
with clock as materialized (
    select ferryman.clock() as now
),
held as materialized (
    select result.tenant, result.tool_call_id
    from clock, (select given.tenant, given.tool_call_id
          from unnest((select :tenants::text[]), (select :calls::text[])) as given (tenant, tool_call_id)
          limit (select 1000000)) as word
    join ferryman.turn_resume_ledger as result
      on result.tenant = word.tenant and result.tool_call_id = word.tool_call_id
    where result.status = 'processing'
      and result.lease_expires_at <= clock.now
    order by result.tenant, result.tool_call_id
    for update of result skip locked
)
update ferryman.turn_resume_ledger as result
set status = 'pending', updated_at = clock.now, lease_owner = null, lease_expires_at = null, last_error = 'lease expired'
from clock, held
where result.tenant = held.tenant
  and result.tool_call_id = held.tool_call_id
  and result.status = 'processing'
returning result.tool_call_id as id
