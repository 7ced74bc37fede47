-- The birth of a cursor, after its first event; none if it is there.
insert into ferryman.ingest_cursor (
    id, last_event, position, created_at, updated_at, tenant, source, endpoint, operation, scope, scope_key, kind)
select :id, :event, :position, ferryman.clock(), ferryman.clock(), :tenant, :source, :endpoint, :operation, :scope, :scope_key, :kind
on conflict (tenant, source, endpoint, operation, scope, scope_key, kind) do nothing
returning id
