"""Who may ask for what: tokens with a tenant and scopes, and the sessions of people who signed in with one (S6)."""
