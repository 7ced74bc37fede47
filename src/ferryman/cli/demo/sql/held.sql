-- How many tasks workers hold, whichever they are.
select count(*) as count from ferryman.tasks where leased_until is not null
