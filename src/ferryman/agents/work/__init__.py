"""What is done: turns are claimed, run, suspended, ended."""
