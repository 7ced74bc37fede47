"""One function per statement on the tables of commands, by subject."""
