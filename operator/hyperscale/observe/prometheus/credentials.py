"""Credentials for Prometheus, read from files for each reading; what a message may show of them is nothing."""

from __future__ import annotations

import base64
import ssl
from dataclasses import dataclass
from typing import Final

from hyperscale.observe.prometheus.access import Access

MAX_SECRET_BYTES: Final = 16 * 1024
MAX_AUTHORITIES_BYTES: Final = 4 * 2**20
_HIDDEN: Final = "…"


class CredentialsError(Exception):
    """A file cannot be used; the message names it and says what to do, without its content."""


@dataclass(frozen=True, repr=False)
class Credentials:
    """What goes with every request."""

    headers: dict[str, str]
    verify: bool | str
    """A file of authorities, or True for the system's."""
    secrets: tuple[str, ...] = ()

    def hide(self, text: str) -> str:
        """The text without any secret: a server may repeat in an error what it was sent."""
        for secret in self.secrets:
            text = text.replace(secret, _HIDDEN)
        return text


def read(access: Access) -> Credentials:
    """Headers and authorities of one reading; raises CredentialsError."""
    headers = {access.tenant_header: access.tenant} if access.tenant else {}
    verify = _authorities(access.ca_file) if access.ca_file else True
    if access.token_file:
        token = _line(access.token_file)
        if not (token.isascii() and token.isprintable()) or " " in token:
            raise CredentialsError(f"{access.token_file} holds characters that no bearer token has: write the token alone into it")
        return Credentials({**headers, "Authorization": f"Bearer {token}"}, verify, (token,))
    if access.username_file:
        name, password = _line(access.username_file), _line(access.password_file)
        if ":" in name:
            raise CredentialsError(f"{access.username_file} holds a colon, which no name of basic authentication may have")
        pair = base64.b64encode(f"{name}:{password}".encode()).decode()
        return Credentials({**headers, "Authorization": f"Basic {pair}"}, verify, (pair, password))
    return Credentials(headers, verify)


def _authorities(path: str) -> str:
    """The path, once what is there has been found usable."""
    _bytes(path, MAX_AUTHORITIES_BYTES)
    try:
        ssl.create_default_context(cafile=path)
    except (ssl.SSLError, OSError, ValueError):
        raise CredentialsError(f"{path} holds no PEM certificate: write the authority's certificate into it") from None
    return path


def _line(path: str) -> str:
    """The one line of a file, without the newline at its end."""
    try:
        text = _bytes(path, MAX_SECRET_BYTES).decode()
    except UnicodeDecodeError:
        raise CredentialsError(f"{path} holds no text: write the credential alone into it") from None
    line = text.strip("\r\n")
    if not line or "\n" in line or "\r" in line or "\0" in line:
        what = "several lines" if line else "nothing"
        raise CredentialsError(f"{path} holds {what}: write the credential into it, in one line")
    return line


def _bytes(path: str, limit: int) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise CredentialsError(f"{path} cannot be read ({error.strerror}): check that the Secret is there and mounted") from None
    if len(content) > limit:
        raise CredentialsError(f"{path} is longer than {limit} bytes: it is no such file")
    return content
