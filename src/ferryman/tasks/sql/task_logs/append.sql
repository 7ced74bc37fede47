-- What handlers said.
insert into ferryman.task_logs (task, attempt, at, level, message)
select word.id, word.attempt, ferryman.clock(), word.level, word.message
from unnest(:ids::uuid[], :attempts::integer[], :levels::text[], :messages::text[])
    with ordinality as word (id, attempt, level, message, nth)
order by word.nth
