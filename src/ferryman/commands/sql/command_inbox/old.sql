-- Finds: a command that ended longer ago than such are kept. Ids grow with time: the oldest lie at one end of the primary key, and
-- those of them that still live are few, because each has a deadline.
select command.id
from ferryman.command_inbox as command
where command.id < ferryman.id_at(ferryman.clock() - :kept::interval)
  and command.finished_at <= ferryman.clock() - :kept::interval
order by command.id
limit :limit
