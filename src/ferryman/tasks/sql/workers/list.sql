-- Who works, and who went without a word in the last day.
select worker.boot_id, worker.tenant, worker.host, worker.pid, worker.version, worker.queues, worker.handlers, worker.settings::text as settings,
       worker.started_at, worker.seen_until, worker.seen_until >= ferryman.clock() as alive
from ferryman.workers as worker
where worker.seen_until >= ferryman.clock() - interval '1 day'
order by worker.started_at, worker.boot_id
