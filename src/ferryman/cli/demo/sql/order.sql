-- What the caller stores beside the task.
insert into ferryman.orders (number) values (:number)
