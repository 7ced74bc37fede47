-- Hold a cursor. A statement of its own: what is read after it sees all coverage that was written before it was free.
select cursor.id, cursor.position, cursor.rewinds
from ferryman.ingest_cursor as cursor
where cursor.id = :id
for update of cursor
