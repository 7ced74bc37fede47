-- Whether there are events between two numbers.
select exists (select from ferryman.events where id > :id and id <= :upto) as found
