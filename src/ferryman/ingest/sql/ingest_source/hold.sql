-- Stand alone before the line of a source, so that its slots are counted once; who stands there already is not waited for.
-- A statement of its own: the next one sees what the last holder has claimed.
-- In no order: lines whose slots are all taken, and there may be more of them than the limit, keep no other waiting for ever.
with clock as materialized (
    select ferryman.clock() as now
)
select held.tenant, held.source
from ferryman.ingest_source as held, clock
where held.source = any(:known_sources::text[])
  and (held.open_until is null or held.open_until <= clock.now)
  and exists (
      select from ferryman.ingest_task as task
      where task.tenant = held.tenant
        and task.source = held.source
        and task.rank is not null
        and task.scheduled_at <= clock.now
        and task.ends_at > clock.now
        and (task.source, task.endpoint) in (
            select known.source, known.endpoint
            from unnest(:known_sources::text[], :known_endpoints::text[]) as known (source, endpoint)))
order by random()
limit :limit
for update of held skip locked
