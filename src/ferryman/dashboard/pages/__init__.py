"""One module for each kind of page; each asks doors and fills a template."""
