-- Who asked for a turn, and whom it asked, in order; the status is that of the other turn.
select edge.primitive, edge.edge_phase, edge.correlation_id, edge.created_at, edge.recursion_depth, edge.source_agent_id,
       edge.source_turn_id, edge.target_agent_id, edge.target_turn_id,
       coalesce(other.turn_status, head.status, other.status) as status
from (
    select asked.*, asked.source_turn_id as other_turn
    from ferryman.execution_edges as asked
    where asked.tenant = :tenant
      and asked.correlation_id = :turn::uuid::text
      and asked.primitive = 'enqueue'
      and asked.edge_phase = 'request'
    union all
    select asking.*, asking.target_turn_id
    from ferryman.execution_edges as asking
    where asking.tenant = :tenant
      and asking.source_turn_id = :turn::uuid
) as edge
left join ferryman.agent_inbox as other on other.id = edge.other_turn and other.tenant = :tenant
left join ferryman.agent_state_head as head on head.active_agent_turn_id = edge.other_turn
order by edge.created_at, edge.id
limit :limit
