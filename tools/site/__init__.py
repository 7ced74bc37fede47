"""The documentation as a site: `make site` writes it to site/, for any web server or for a browser that opens its files.

The pages of the repository are staged first: the front page and the pages of docs/, with their links turned towards each other,
diagrams drawn as SVG, and the reference divided into pages. Then the generator makes HTML of them. Nothing in it comes
from elsewhere: no fonts, no scripts, no pictures (`check` refuses them), so that it can be read without a network.
Only its search needs a server: `python -m http.server -d site`.
"""
