-- Who asked whom; a repeat adds nothing.
insert into ferryman.execution_edges (
    tenant, correlation_id, primitive, edge_phase, id, created_at, recursion_depth, source_turn_id, source_step_id,
    target_turn_id, source_agent_id, target_agent_id, metadata)
select word.tenant, word.correlation, word.primitive, word.phase, word.id, ferryman.clock(), word.depth, word.source_turn,
       word.source_step, word.target_turn, word.source_agent, word.target_agent, word.metadata
from jsonb_to_recordset(:edges::jsonb) as word (
    tenant text, correlation text, primitive text, phase text, id uuid, depth integer, source_turn uuid, source_step uuid,
    target_turn uuid, source_agent text, target_agent text, metadata jsonb)
on conflict do nothing
returning correlation_id, primitive, edge_phase
