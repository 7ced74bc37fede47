-- Nothing of a queue, or of one tenant in it, starts from now on; what runs goes on. Or it starts again.
update ferryman.queues as queue
set paused_at = case when :paused::boolean then coalesce(queue.paused_at, ferryman.clock()) end, updated_at = ferryman.clock()
where queue.name = :name
  and queue.tenant = :tenant
returning queue.name
