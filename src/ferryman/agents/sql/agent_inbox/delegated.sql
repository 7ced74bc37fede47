-- The live turns that these turns asked for by calls of their own: nobody waits for them any more.
select child.tenant, child.id, child.agent_id
from unnest((select :turns::uuid[])) as given (id)
join ferryman.execution_edges as edge on edge.source_turn_id = given.id
join ferryman.agent_inbox as child on child.tenant = edge.tenant and child.id = edge.target_turn_id
where edge.tenant = any(:tenants::text[])
  and edge.primitive = 'enqueue'
  and edge.edge_phase = 'request'
  and child.archived_at is null
  and child.callback = 'delegate'
