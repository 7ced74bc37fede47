-- What was claimed by lanes and runs in a queue that has limits now holds a slot like the rest. Bounded; what somebody else is
-- writing at this moment is left for the next time.
update ferryman.tasks as task
set slot = true
where task.id = any(array(
    select running.id
    from ferryman.tasks as running
    where (select exists (select from ferryman.queues as queue where not queue.open))
      and running.leased_until is not null
      and running.slot is null
      and exists (select from ferryman.queues as queue
                  where queue.name = running.queue and queue.tenant in ('*', running.tenant) and not queue.open)
    limit :limit
    for update skip locked))
  and task.leased_until is not null
returning task.id, task.queue
