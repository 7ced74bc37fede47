-- Planners of one kind of work take turns. A statement of its own: what is read after it sees all that the one before has made.
-- An advisory lock, not the cursor's row: the first planner has none yet, and whoever moves a cursor need not wait.
select pg_advisory_xact_lock(hashtextextended(
    concat_ws(chr(31), 'ferryman.plan', :tenant::text, :source::text, :endpoint::text, :operation::text), 0)) as locked
