"""Ready-made sinks."""

from ferryman.ingest.sinks.call import CallSink
from ferryman.ingest.sinks.files import JsonlSink, ParquetSink
from ferryman.ingest.sinks.table import TableSink

__all__ = ["CallSink", "JsonlSink", "ParquetSink", "TableSink"]
