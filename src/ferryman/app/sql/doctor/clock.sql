-- How far a test has moved the time of this database.
select shift, extract(epoch from shift)::float8 as seconds
from ferryman.clock_shift
