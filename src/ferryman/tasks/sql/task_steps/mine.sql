-- Which of these claims are still current. The limit keeps the planner at one lookup a row (see turn.sql).
select task.id
from (
    select given.id, given.epoch
    from unnest((select :ids::uuid[]), (select :epochs::bigint[])) as given (id, epoch)
    limit (select 1000000)
) as word
join ferryman.tasks as task on task.id = word.id
where task.epoch = word.epoch
  and task.lease_owner = :owner
  and task.state = 'running'
