-- Locks commands in the order of their ids, before anything that they started is written.
select held.id
from (select id from unnest((select :ids::uuid[])) as given (id) order by id limit (select 1000000)) as word
cross join lateral (
    select command.id
    from ferryman.command_inbox as command
    where command.id = word.id
    for update
) as held
