"""The dashboard: pages made on the server over the doors of one tenant, and one small script that keeps them fresh (S5)."""
