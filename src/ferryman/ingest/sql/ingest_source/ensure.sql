-- A source is known from its first plan on. One that is known is not said again: that would wait for a page that closes its
-- circuit breaker, and the page for the cursor, which the planner holds.
insert into ferryman.ingest_source (tenant, source)
select given.tenant, given.source
from (values (:tenant::text, :source::text)) as given (tenant, source)
where not exists (select from ferryman.ingest_source as known
                  where known.tenant = given.tenant
                    and known.source = given.source)
on conflict (tenant, source) do nothing
