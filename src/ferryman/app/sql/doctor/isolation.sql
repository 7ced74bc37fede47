-- The isolation level of a transaction that sets none.
select current_setting('default_transaction_isolation') as level
