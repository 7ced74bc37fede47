"""What is done: claim, run, settle, decide about what remains."""
