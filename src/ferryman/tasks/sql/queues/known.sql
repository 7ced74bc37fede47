-- Whether anybody knows a queue: it is declared, a living worker serves it, or something waits or runs in it.
select exists (select from ferryman.queues as queue where queue.name = :name)
    or exists (select from ferryman.workers as worker
               where worker.seen_until >= ferryman.clock() and :name = any(worker.queues))
    or exists (select from ferryman.tasks as task where task.finished_at is null and task.leased_until is null and task.queue = :name)
    or exists (select from ferryman.tasks as task where task.leased_until is not null and task.queue = :name) as known
