"""One module per system that is measured; each is run as a program of its own."""
