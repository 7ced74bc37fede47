-- Results of this type have no follow-ups any more: nobody who lives knows them.
delete from ferryman.command_routes as route
where route.result_type = any(:types::text[])
