"""The address of history: which URLs name a database, and how they are printed without secrets."""

from __future__ import annotations

import re
from typing import Final

import sqlalchemy as sql
from sqlalchemy.exc import SQLAlchemyError

BAD_URL: Final = (
    "the history's URL cannot be read; write sqlite:////FILE or postgresql://USER:PASSWORD@HOST/DATABASE, and %40 for an @ in the password"
)
HIDDEN: Final = "***"
MIN_SECRET: Final = 4
"""Characters. Shorter ones are parts of words: the gaps would tell them."""
SHOWN_OPTIONS: Final = frozenset(
    {
        *("host", "hostaddr", "port", "user", "dbname", "service", "sslmode", "gssencmode", "channel_binding", "options"),
        *("connect_timeout", "keepalives", "tcp_user_timeout", "application_name", "target_session_attrs"),
        *("timeout", "mode", "uri", "check_same_thread"),
    }
)
"""Options of a URL whose values are printed; any other may be a mistyped password."""


def database_address(url: str | sql.URL) -> sql.URL:
    """Return the URL of a kind that history knows, with its driver. Raises ValueError, whose text repeats nothing from the URL."""
    try:
        address = sql.make_url(url)
    except (SQLAlchemyError, ValueError) as error:
        raise ValueError(BAD_URL) from error
    kind = address.get_backend_name()
    # SQLAlchemy ends a password at its first "@": the rest would be printed as a host or a database.
    if kind not in ("sqlite", "postgresql") or (kind == "postgresql" and "@" in f"{address.host or ''}{address.database or ''}"):
        raise ValueError(BAD_URL)
    return address.set(drivername="postgresql+psycopg") if address.drivername == "postgresql" else address


def shown_address(address: sql.URL) -> str:
    """Return a URL as it may be printed: of the password, and of options that are not SHOWN_OPTIONS, the name only."""
    query = {name: value if name in SHOWN_OPTIONS else "" for name, value in address.query.items()}
    return address.set(query=query).render_as_string(hide_password=True)


def without_password(text: str, address: sql.URL) -> str:
    """Return a fault of a driver without the secrets of the address."""
    options = [value for name, value in address.query.items() if name not in SHOWN_OPTIONS]
    secrets = [each for value in options for each in ([value] if isinstance(value, str) else value)]
    for secret in map(str, filter(None, [address.password, *secrets])):
        if len(secret) >= MIN_SECRET:
            text = text.replace(secret, HIDDEN)
    return text


def masked_source(text: str) -> str:
    """Return the name of a file, which may be a mistyped URL: everything from the first ":" to the last "@" is hidden."""
    return re.sub(r":.*@", f":{HIDDEN}@", text, count=1, flags=re.DOTALL)
