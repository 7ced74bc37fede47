"""What can be asked, a module for each domain; each has its `router`."""
