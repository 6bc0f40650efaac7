"""How Prometheus is asked: which authority vouches for it, which files hold the credentials, which tenant's series are wanted."""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

PREFIX: Final = "HYPERSCALE_PROMETHEUS_"
"""Of the variable of each field."""
TENANT_HEADER: Final = "X-Scope-OrgID"
"""Of Mimir and Cortex; Thanos' receivers call it THANOS-TENANT."""
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}", re.ASCII)
_TENANT: Final = re.compile(r"[A-Za-z0-9!\-_.*'()|]{0,450}", re.ASCII)
"""Mimir's own rule for tenant ids (up to 150 characters); `|` separates several."""
NAME_AUTHORITY: Final = "name its authority in prometheus.tls of the chart, or with --prometheus-ca-file"
_ANOTHER_NAME: Final = "write its URL with a name that is in its certificate"
CERTIFICATE_HINTS: Final = {
    9: "its certificate is not valid yet: compare the clocks",
    10: "renew its certificate",
    62: _ANOTHER_NAME,
    64: _ANOTHER_NAME,
}
"""By code of X509_STORE_CTX_get_error(3)."""
_RESERVED: Final = frozenset({"authorization", "host", "content-length", "transfer-encoding", "connection", "accept-encoding", "cookie"})


class Access(msgspec.Struct, frozen=True):
    """Secrets are in files, never in these fields: files are read again for every reading, so that a rotated Secret is used at once."""

    ca_file: str = ""
    """PEM certificates of the authorities that may sign the server's; empty takes the system's."""

    token_file: str = ""
    """Bearer token."""

    username_file: str = ""
    """Name of basic authentication."""

    password_file: str = ""
    """Password of basic authentication."""

    tenant: str = ""
    """Value of `tenant_header`; empty sends no such header."""

    tenant_header: str = TENANT_HEADER

    def fault(self) -> tuple[str, str] | None:
        """Return the field that is wrong and what to write instead; None where the fields fit together."""
        if self.token_file and (self.username_file or self.password_file):
            return "token_file", "a request carries a bearer token or a name with a password, not both: leave one out"
        if bool(self.username_file) != bool(self.password_file):
            missing = "password_file" if self.username_file else "username_file"
            return missing, "basic authentication needs a name and a password: name both files"
        if not _TENANT.fullmatch(self.tenant):
            return "tenant", "a tenant consists of letters, digits and !-_.*'()|: write for example team-a"
        if not _HEADER_NAME.fullmatch(self.tenant_header) or self.tenant_header.lower() in _RESERVED:
            return "tenant_header", f"{self.tenant_header[:64]!r} cannot be the header of a tenant: write for example {TENANT_HEADER}"
        return None

    @property
    def has_credentials(self) -> bool:
        """Whether requests carry a secret."""
        return bool(self.token_file or self.username_file)


PLAIN: Final = Access()
"""The system's authorities, no credentials, no tenant."""


def from_variables(environment: Mapping[str, str]) -> Access:
    """Return what the variables named HYPERSCALE_PROMETHEUS_<FIELD> say; empty ones count as absent. Not checked: see `fault`."""
    return Access(**{name: text for name in Access.__struct_fields__ if (text := environment.get(PREFIX + name.upper()))})


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


def certificate_hint(verify_code: int) -> str:
    """What to do about a certificate that was refused; verify_code: of `ssl.SSLCertVerificationError`."""
    return CERTIFICATE_HINTS.get(verify_code, NAME_AUTHORITY)
