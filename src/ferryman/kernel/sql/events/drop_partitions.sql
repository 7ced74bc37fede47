-- The days that retention has passed.
select name from ferryman.drop_partitions(:older_than, :even_unread) as name
