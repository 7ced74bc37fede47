-- What is agreed for a queue, changed by hand; what is not named stays.
update ferryman.queues as queue
set weight = case when given.changes ? 'weight' then (given.changes ->> 'weight')::integer else queue.weight end,
    concurrency = case when given.changes ? 'concurrency' then (given.changes ->> 'concurrency')::integer else queue.concurrency end,
    key_concurrency = case when given.changes ? 'key_concurrency'
                           then (given.changes ->> 'key_concurrency')::integer else queue.key_concurrency end,
    rate_count = case when given.changes ? 'rate_count' then (given.changes ->> 'rate_count')::integer else queue.rate_count end,
    rate_interval = case when given.changes ? 'rate_count'
                         then make_interval(secs => (given.changes ->> 'rate_seconds')::float8) else queue.rate_interval end,
    burst = case when given.changes ? 'rate_count' then (given.changes ->> 'burst')::integer else queue.burst end,
    max_depth = case when given.changes ? 'max_depth' then (given.changes ->> 'max_depth')::integer else queue.max_depth end,
    at_limit = case when given.changes ? 'at_limit' then given.changes ->> 'at_limit' else queue.at_limit end,
    updated_at = ferryman.clock()
from (select :changes::jsonb as changes) as given
where queue.name = :name
  and queue.tenant = :tenant
returning queue.name
