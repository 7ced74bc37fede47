-- How many finished tasks are past the time for which they are kept, and since when the oldest is. Up to a million.
-- Only among those old enough by their ids, so that a table of young rows is not read.
select count(*) as count, extract(epoch from max(past.by))::float8 as longest_seconds
from (
    select ferryman.clock() - task.finished_at
           - case task.state when 'failed' then :failed_kept::interval else :kept::interval end as by
    from ferryman.tasks as task
    where task.id < ferryman.id_at(ferryman.clock() - least(:kept::interval, :failed_kept::interval))
      and task.finished_at <= ferryman.clock()
          - case task.state when 'failed' then :failed_kept::interval else :kept::interval end
    limit 1000000
) as past
