-- A consumer that is gone no longer keeps the log from being dropped.
delete from ferryman.consumers
where name = :name
returning name
