-- What came of the harvest: rows, records and pages that were written, and slices that a second process went on with.
select (select count(*) from ferryman.parcels) as parcels,
       (select coalesce(sum(record_count), 0)::bigint from ferryman.ingest_batch where status = 'SUCCEEDED') as written,
       (select count(*) from ferryman.ingest_batch where status = 'SUCCEEDED') as pages,
       (select count(*) from (
           select from ferryman.ingest_run group by task_id having count(distinct lease_owner) > 1) as task) as resumed
