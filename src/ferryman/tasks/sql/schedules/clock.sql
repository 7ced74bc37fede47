-- What time it is: a rhythm is reckoned in Python, by the database's clock.
select ferryman.clock() as now
