"""What should happen to a task, as pure functions."""
