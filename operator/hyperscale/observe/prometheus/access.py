"""How Prometheus is asked: which authority vouches for it, which files hold the credentials, which tenant's series are wanted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

PREFIX: Final = "HYPERSCALE_PROMETHEUS_"
"""Of the variable of each field."""
TENANT_HEADER: Final = "X-Scope-OrgID"
"""Of Mimir and Cortex; Thanos' receivers call it THANOS-TENANT."""
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}", re.ASCII)
_TENANT: Final = re.compile(r"[A-Za-z0-9!\-_.*'()|]{0,450}", re.ASCII)
"""Mimir's own rule for tenant ids (up to 150 characters); `|` separates several."""
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
