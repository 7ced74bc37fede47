"""What should happen, decided without a database."""
