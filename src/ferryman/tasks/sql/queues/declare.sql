-- What an app declares for its queues. A declaration that is the same as the last one changes nothing: what was set by hand
-- since then stays, until the code says something new.
insert into ferryman.queues as queue (name, weight, concurrency, key_concurrency, rate_count, rate_interval, burst, max_depth,
    at_limit, declared)
select given.declared ->> 'name', coalesce(said.weight, 1), said.concurrency, said.key_concurrency, said.rate_count,
       make_interval(secs => said.rate_seconds), said.burst, said.max_depth, coalesce(said.at_limit, 'refuse_newest'),
       given.declared
from jsonb_array_elements(:queues::jsonb) as given (declared)
cross join lateral jsonb_to_record(given.declared) as said (
    weight integer, concurrency integer, key_concurrency integer, rate_count integer, rate_seconds float8, burst integer,
    max_depth integer, at_limit text)
order by 1
on conflict (name, tenant) do update
set weight = excluded.weight, concurrency = excluded.concurrency, key_concurrency = excluded.key_concurrency,
    rate_count = excluded.rate_count, rate_interval = excluded.rate_interval, burst = excluded.burst,
    max_depth = excluded.max_depth, at_limit = excluded.at_limit, declared = excluded.declared, updated_at = ferryman.clock()
where queue.declared is distinct from excluded.declared
returning queue.name
