"""An app that declares its queues."""

from ferryman import Ferryman

app = Ferryman()
app.queue("mail", concurrency=5, rate="100/minute")
