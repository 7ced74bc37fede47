-- Stand alone before the line of a source, so that its slots are counted once; who stands there already is not waited for.
-- A statement of its own: the next one sees what the last holder has claimed.
with clock as materialized (
    select ferryman.clock() as now
)
select held.tenant, held.source
from ferryman.ingest_source as held, clock
where held.source = any(:sources::text[])
  and (held.open_until is null or held.open_until <= clock.now)
  and exists (
      select from ferryman.ingest_task as task
      where task.tenant = held.tenant
        and task.source = held.source
        and task.rank is not null
        and task.scheduled_at <= clock.now)
order by held.tenant, held.source
limit :limit
for update of held skip locked
