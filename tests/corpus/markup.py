"""Texts that a page must show as text: each would run a script, ask another server or break out of its place if it were not."""

MARKUP = (
    "<script>window.hurt = 1</script>",
    '"><img src=x onerror="window.hurt = 1">',
    "<svg/onload=window.hurt=1>",
    "';window.hurt=1;//",
    "<iframe srcdoc='<script>parent.hurt=1</script>'></iframe>",
    '<a href="javascript:window.hurt=1">click</a>',
    "{{ 7 * 7 }}{% raw %}${7*7}",
    "</pre></code></title></textarea><script>window.hurt=1</script>",
    '<link rel="stylesheet" href="https://elsewhere.example/hurt.css">',
    "\u202egnihtemos\u2066 <b>bold</b> \u0085 \ufeff",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=window.hurt=1>",
    "&lt;script&gt;window.hurt=1&lt;/script&gt; &#60;img src=x onerror=window.hurt=1&#62;",
)
