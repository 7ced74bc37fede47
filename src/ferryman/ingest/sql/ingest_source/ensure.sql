-- A source is known from its first plan on.
insert into ferryman.ingest_source (tenant, source)
values (:tenant, :source)
on conflict (tenant, source) do nothing
