-- Parents, locked before anything of their children is written, in the order of their ids.
select task.id
from ferryman.tasks as task
where task.id = any(:ids::uuid[])
order by task.id
for no key update
