-- Whether the log has this event, and none of the numbers after it that a reader passed. Named by its time too, it is looked for in one
-- partition.
select exists (select from ferryman.events where id = :id and logged_at = :logged_at)
       and not exists (select from ferryman.events where id > :id and id <= :passed) as known
