-- The cursors of a tenant.
select cursor.id, cursor.source, cursor.endpoint, cursor.operation, cursor.scope, cursor.scope_key, cursor.kind, cursor.position,
       cursor.rewinds, cursor.updated_at
from ferryman.ingest_cursor as cursor
where cursor.tenant = :tenant
  and (:source::text is null or cursor.source = :source)
order by cursor.source, cursor.endpoint, cursor.operation, cursor.scope_key
limit :limit
