"""What is done: claim, run, settle."""
