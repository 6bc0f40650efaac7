"""URLs as they may be printed: a report is pasted into tickets. Pure."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

HIDDEN: Final = "…"
_SERVICE: Final = re.compile(r"^(?P<name>[a-z0-9-]+)(?:\.(?P<namespace>[a-z0-9-]+)(?:\.svc(?:\.[a-z0-9.-]+)?)?)?$")


def service_of(url: str, home: str) -> tuple[str, str] | None:
    """Namespace and name of the Service that a URL's host may be, None for other hosts; home: namespace where the URL names none."""
    host = urlsplit(url).hostname or ""
    matched = _SERVICE.match(host)
    return None if matched is None or host == "localhost" else (matched["namespace"] or home, matched["name"])


def without_secrets(url: str, *, user: bool = True) -> str:
    """The URL without password, query and fragment (libpq takes `?password=` too), and without `user` if that is not wanted.

    Of a URL that is not plain only the scheme is left: a password with a slash in it looks like a port and a path.
    """
    scheme = url.partition(":")[0] if "://" in url else ""
    try:
        parts = urlsplit(url)
        plain = bool(parts.netloc) and "@" not in parts.path + parts.query + parts.fragment and (parts.port is None or parts.port > 0)
    except ValueError:
        plain = False
    if scheme.startswith("sqlite"):
        return url.partition("?")[0]
    if not plain:
        return f"{scheme}://{HIDDEN}" if scheme else HIDDEN if url else ""
    name, at, host = parts.netloc.rpartition("@")
    shown = f"{name.partition(':')[0]}@{host}" if at and user else host
    return f"{parts.scheme}://{shown}{parts.path}"
