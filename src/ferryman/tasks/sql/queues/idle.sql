-- T17 finds: a gate with a free slot, and a task that has stood before it for longer than a look takes.
-- A rate that is spent and a pause are reasons to stand there; that nobody serves the queue is the orphans' matter.
select queue.name as id
from ferryman.queues as queue
where queue.tenant = '*'
  and queue.paused_at is null
  and queue.open_at <= ferryman.clock()
  and (queue.concurrency is null or queue.concurrency > (
      select count(*)
      from ferryman.tasks as held
      where held.queue = queue.name
        and held.slot
        and held.leased_until is not null))
  and not queue.open
  and exists (
      select from ferryman.tasks as task
      where task.queue = queue.name
        and task.rank is not null
        and task.limit_key is null
        and task.rank < ferryman.clock() - :patience::interval)
order by queue.name
limit :limit
