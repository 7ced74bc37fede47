-- The time by the clock that all comparisons use.
select ferryman.clock() as now
