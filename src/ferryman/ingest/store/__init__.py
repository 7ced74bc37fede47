"""One function per statement on the tables of ingestion, by subject."""
