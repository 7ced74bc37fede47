-- A table of the caller's own.
create table ferryman.orders (number integer primary key)
