"""What should happen, decided without a clock or a wire."""
