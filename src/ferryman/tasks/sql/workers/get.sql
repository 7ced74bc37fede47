-- What one worker last said of itself.
select worker.boot_id, worker.tenant, worker.host, worker.pid, worker.version, worker.queues, worker.handlers
from ferryman.workers as worker
where worker.boot_id = :boot_id
