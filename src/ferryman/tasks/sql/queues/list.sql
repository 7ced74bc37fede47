-- What is agreed for queues, and how many of their slots are held.
select queue.name, queue.tenant, queue.weight, queue.concurrency, queue.key_concurrency, queue.rate_count,
       queue.rate_interval, queue.burst, queue.max_depth, queue.at_limit, queue.paused_at,
       case when queue.rate_count is null then null
            else greatest(extract(epoch from queue.open_at - ferryman.clock())::float8
                          - (queue.burst - 1) * extract(epoch from queue.rate_interval)::float8 / queue.rate_count, 0)
       end as open_seconds,
       (select count(*)
        from ferryman.tasks as held
        where held.queue = queue.name
          and (queue.tenant = '*' or held.tenant = queue.tenant)
          and held.slot
          and held.leased_until is not null) as held
from ferryman.queues as queue
where :name::text is null or queue.name = :name::text
order by queue.name, queue.tenant
