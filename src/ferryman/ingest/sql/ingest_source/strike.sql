-- A request failed: the breaker opens when so many have failed one after another.
update ferryman.ingest_source
set failures = failures + 1,
    open_until = case when failures + 1 >= :most then ferryman.clock() + :pause::interval else open_until end,
    opened = opened + case when failures + 1 >= :most then 1 else 0 end
where tenant = :tenant
  and source = :source
returning failures, open_until
