-- Ends those of our connections whose client stands still in the middle of a statement.
-- PostgreSQL takes such a backend for active and no timeout ends it, so that it keeps its locks for as long as its process is
-- frozen. In a transaction of the machinery (it is older than the statement) one that reads is ended like one that is idle, in one
-- of a run of ingestion too: a page that is large, and long on its way, looks the same. The others have longer: a lonely
-- statement has locked no rows and may be as large; in the pool handlers may hold up the loop; who writes may be at the end of a
-- statement that took its time. A COPY takes as long as it takes. Whoever we may not end stays: one refusal would fail all of it.
select activity.pid as id, pg_terminate_backend(activity.pid) as ended
from pg_stat_activity as activity
where activity.datname = current_database()
  and activity.application_name in ('ferryman', 'ferryman run', 'ferryman pool')
  and activity.state = 'active'
  and activity.wait_event in ('ClientRead', 'ClientWrite')
  and activity.state_change < clock_timestamp() - case
      when activity.wait_event = 'ClientRead' and activity.xact_start < activity.query_start
      then case activity.application_name
          when 'ferryman' then :machinery::interval
          when 'ferryman run' then :runs::interval
          else :others::interval
      end
      else :others::interval
  end
  and pg_has_role(activity.usesysid, 'usage')
  and (current_setting('is_superuser')::boolean
       or activity.usesysid <> all(array(select role.oid from pg_roles as role where role.rolsuper)))
  and not exists (select from pg_stat_progress_copy as copying where copying.pid = activity.pid)
limit :limit
