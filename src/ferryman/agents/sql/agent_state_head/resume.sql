-- W4: the count is taken from the waiting rows, the ledger is rebuilt from what was received, and the turn is put before the
-- workers; the claim makes the move.
with clock as materialized (
    select ferryman.clock() as now
),
word as materialized (
    select given.id, given.epoch
    from unnest((select :ids::uuid[]), (select :epochs::bigint[])) as given (id, epoch)
    limit (select 1000000)
),
held as materialized (
    select head.id
    from word
    join ferryman.agent_state_head as head on head.active_agent_turn_id = word.id
    where head.turn_epoch = word.epoch
      and head.status = 'suspended'
      and head.ready_at is null
      and not exists (select from ferryman.turn_waiting_tools as waited
                      where waited.agent_turn_id = head.active_agent_turn_id
                        and waited.wait_status = 'waiting')
    order by head.tenant, head.agent_id
    for update of head skip locked
),
mended as (
    update ferryman.agent_state_head as head
    set updated_at = clock.now, ready_at = clock.now, waiting_tool_count = 0, resume_deadline = head.turn_deadline
    from clock, held
    where head.id = held.id
    returning head.tenant, head.agent_id, head.active_agent_turn_id, head.turn_epoch, head.turn_deadline
),
ledger as (
    insert into ferryman.turn_resume_ledger (
        tenant, tool_call_id, created_at, updated_at, ends_at, turn_epoch, agent_turn_id, tool_result_card_id, agent_id)
    select mended.tenant, waited.tool_call_id, clock.now, clock.now, mended.turn_deadline, mended.turn_epoch,
           mended.active_agent_turn_id, waited.tool_result_card_id, mended.agent_id
    from clock, mended
    join ferryman.turn_waiting_tools as waited
      on waited.agent_turn_id = mended.active_agent_turn_id
    where waited.wait_status in ('received', 'expired')
      and waited.turn_epoch = mended.turn_epoch
    on conflict do nothing
)
select active_agent_turn_id as id, tenant, agent_id
from mended
