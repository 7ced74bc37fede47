"""What all domains share; the kernel knows none of them."""
