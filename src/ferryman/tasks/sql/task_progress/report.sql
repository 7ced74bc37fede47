-- The latest word of a running handler; a stale holder's word is not written.
insert into ferryman.task_progress (id, percent, message, at)
select word.id, word.percent, word.message, ferryman.clock()
from unnest(:ids::uuid[], :epochs::bigint[], :percents::smallint[], :messages::text[]) as word (id, epoch, percent, message)
join ferryman.tasks as task
  on task.id = word.id
 and task.epoch = word.epoch
 and task.leased_until is not null
order by word.id
on conflict (id) do update
set percent = excluded.percent, message = excluded.message, at = excluded.at
returning id
