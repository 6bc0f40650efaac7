"""Logs for machines: one JSON object a line on stderr."""

from __future__ import annotations

import json
import logging
import sys
from typing import Final

_RESERVED: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, whatever the call passed as `extra`, and the traceback if any."""

    def format(self, record: logging.LogRecord) -> str:
        """The line for `record`."""
        line: dict[str, object] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {key: value for key, value in vars(record).items() if key not in _RESERVED and not key.startswith(("k8s_", "settings"))}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def configure_logging(level: int = logging.INFO) -> None:
    """Send everything to stderr as JSON; kopf's own chatter only from warnings on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("kopf").setLevel(logging.WARNING)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
