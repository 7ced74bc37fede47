-- A gate for queues that nobody declared but whose tasks have keys: a row to lock, and no limits.
insert into ferryman.queues (name)
select queue
from unnest(:queues::text[]) as given (queue)
on conflict do nothing
