"""What is done: read the log, publish it, call receivers."""
