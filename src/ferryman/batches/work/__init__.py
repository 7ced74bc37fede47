"""What is done: tasks are dispatched as turns; forks come from turns."""
