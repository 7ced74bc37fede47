"""HTTP: every object of every domain under /v1, thin over the doors of an app (S4)."""
