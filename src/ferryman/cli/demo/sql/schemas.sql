-- Whether a schema is there.
select nspname from pg_namespace where nspname = :schema
