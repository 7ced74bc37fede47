-- A worker goes; those that died without a word are forgotten with it, a day after.
delete from ferryman.workers
where boot_id = :boot_id
   or seen_until < ferryman.clock() - interval '1 day'
returning boot_id
