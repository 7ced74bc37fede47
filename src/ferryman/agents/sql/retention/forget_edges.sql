-- What was asked and answered under these names.
delete from ferryman.execution_edges as edge
using (
    select distinct given.tenant, given.correlation_id
    from unnest((select :tenants::text[]), (select :correlations::text[])) as given (tenant, correlation_id)
) as word
where edge.tenant = word.tenant
  and edge.correlation_id = word.correlation_id
returning edge.id
