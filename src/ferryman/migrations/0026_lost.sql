-- ferryman: no-transaction
-- What failed or was cancelled is what people ask for, and is rare among millions that went well. Only an end that did not go well
-- writes into this index.
create index concurrently if not exists tasks_lost on ferryman.tasks (tenant, id) where state in ('failed', 'cancelled');
