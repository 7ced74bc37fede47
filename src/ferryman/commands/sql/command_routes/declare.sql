-- Results of these types have follow-ups from now on.
insert into ferryman.command_routes (result_type, declared_at)
select type, ferryman.clock()
from unnest(:types::text[]) as given (type)
on conflict do nothing
