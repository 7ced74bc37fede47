-- A cursor by its name.
select cursor.id, cursor.position, cursor.rewinds
from ferryman.ingest_cursor as cursor
where cursor.tenant = :tenant
  and cursor.source = :source
  and cursor.endpoint = :endpoint
  and cursor.operation = :operation
  and cursor.scope = :scope
  and cursor.scope_key = :scope_key
  and cursor.kind = :kind
