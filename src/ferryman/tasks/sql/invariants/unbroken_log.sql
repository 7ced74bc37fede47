-- Retention may have dropped the beginning; from there on each move begins where the one before ended.
select id, event, from_state, before as state_before
from (
    select subject as id, id as event, from_state,
           lag(to_state) over moves as before, row_number() over moves as place
    from ferryman.events
    where kind = 'task'
      and to_state is not null
    window moves as (partition by subject order by id)
) as step
where place > 1
  and from_state is distinct from before
