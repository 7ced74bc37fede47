"""One function per statement on the tables of relays, by subject."""
