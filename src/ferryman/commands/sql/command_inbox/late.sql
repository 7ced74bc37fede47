-- W14 finds: a command past its deadline. Nothing is locked here: the ending statement looks again.
select command.id
from ferryman.command_inbox as command
where command.deadline_at <= ferryman.clock()
  and command.finished_at is null
order by command.deadline_at
limit :limit
