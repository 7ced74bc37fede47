"""What is done: windows planned, tasks run, sources asked no faster than they bear."""
