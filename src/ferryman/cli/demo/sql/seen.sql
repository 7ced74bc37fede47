-- What anybody else sees of the caller's work.
select (select count(*) from ferryman.orders) as orders,
       (select count(*) from ferryman.tasks where name = 'ship') as tasks
