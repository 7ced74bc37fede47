-- consumed | error | skipped -> (nothing)
-- What belongs to a turn goes with it: its calls and their results, its steps, the edges by which it was asked for and asked others, what
-- it had reserved. A derived agent goes with its last turn, unless a batch has still to send a task to it. The log keeps all moves. A row
-- that somebody holds is left for the next walk.
with gone as materialized (
    select message.id, message.tenant, message.agent_id, message.agent_turn_id, message.message_type, message.correlation_id,
           message.context_box_id, message.output_box_id, message.budget_id
    from ferryman.agent_inbox as message
    where message.id = any(:ids::uuid[])
      and message.archived_at is not null
    order by message.tenant, message.id
    for update skip locked
),
turn as materialized (
    select gone.* from gone where gone.agent_turn_id = gone.id
),
waits as (
    delete from ferryman.turn_waiting_tools as waited
    using turn
    where waited.agent_turn_id = turn.id
      and waited.tenant = turn.tenant
    returning waited.tenant, waited.tool_call_id
),
ledger as (
    delete from ferryman.turn_resume_ledger as result
    using waits
    where result.tenant = waits.tenant
      and result.tool_call_id = waits.tool_call_id
),
steps as (
    delete from ferryman.agent_steps as step
    using turn
    where step.tenant = turn.tenant
      and step.agent_turn_id = turn.id
),
asked as (
    delete from ferryman.execution_edges as edge
    using turn
    where edge.tenant = turn.tenant
      and edge.source_turn_id = turn.id
),
edges as (
    delete from ferryman.execution_edges as edge
    using (
        select turn.tenant, turn.id::text as correlation_id from turn
        union
        select waits.tenant, waits.tool_call_id from waits
        union
        select gone.tenant, 'stop:' || gone.correlation_id from gone where gone.message_type = 'stop'
    ) as named
    where edge.tenant = named.tenant
      and edge.correlation_id = named.correlation_id
),
reserved as (
    delete from ferryman.budget_reservations as reservation
    using turn
    where reservation.tenant = turn.tenant
      and reservation.agent_turn_id = turn.id
),
heads as (
    delete from ferryman.agent_state_head as head
    using ferryman.agents as agent, turn
    where head.tenant = turn.tenant
      and head.agent_id = turn.agent_id
      and head.status = 'idle'
      and agent.id = head.id
      and agent.derived_from is not null
      and not exists (select from ferryman.agent_inbox as other
                      where other.tenant = turn.tenant
                        and other.agent_id = turn.agent_id
                        and other.agent_turn_id = other.id
                        and other.id not in (select turn.id from turn))
      and not exists (select from ferryman.pmo_batch_tasks as task
                      where task.tenant = turn.tenant
                        and task.agent_id = turn.agent_id
                        and task.status = 'pending'
                        and task.retryable)
    returning head.id
),
agents as (
    delete from ferryman.agents as agent
    using heads
    where agent.id = heads.id
),
messages as (
    delete from ferryman.agent_inbox as message
    using gone
    where message.id = gone.id
)
select gone.id, gone.tenant, gone.context_box_id, gone.output_box_id, gone.budget_id, gone.agent_turn_id is not distinct from gone.id as is_turn
from gone
