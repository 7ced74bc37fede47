-- The depth at which these were asked for.
select edge.correlation_id, edge.primitive, edge.recursion_depth
from unnest((select :correlations::text[])) as given (correlation_id)
join ferryman.execution_edges as edge
  on edge.tenant = :tenant and edge.correlation_id = given.correlation_id and edge.primitive = :primitive
 and edge.edge_phase = 'request'
