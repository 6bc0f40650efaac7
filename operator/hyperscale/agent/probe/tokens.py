"""The shared token of all agents: read from a mounted file, rotated without a restart.

The file holds one token a line. The first is the one to prove oneself with, every other one is accepted too, and one that was replaced
is accepted a while longer: the kubelet renews mounted Secrets at a different moment on every node.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

MIN_BYTES: Final = 16
"""A shorter token could be guessed from one recorded handshake."""
MAX_TOKENS: Final = 4
MAX_FILE_BYTES: Final = 4096
GRACE_SECONDS: Final = 300.0
"""The kubelet takes up to its sync period and its cache's time to live, a minute or two, to renew a mounted Secret."""
CHECK_SECONDS: Final = 2.0


class TokenError(ValueError):
    """No usable token; the message names the file and what to write."""


class Token(NamedTuple):
    """One shared secret and the name by which both ends mean it."""

    key_id: str
    secret: bytes

    def __repr__(self) -> str:
        """Never the secret."""
        return f"Token({self.key_id})"


def parse(text: str, source: str) -> tuple[Token, ...]:
    """Tokens in a file's text, first line first; raises TokenError."""
    lines = [line.strip() for line in text.splitlines()]
    secrets = [line.encode() for line in lines if line and not line.startswith("#")]
    if not secrets:
        raise TokenError(f"{source}: holds no token; write a line of at least {MIN_BYTES} characters")
    if len(secrets) > MAX_TOKENS:
        raise TokenError(f"{source}: holds {len(secrets)} tokens; write at most {MAX_TOKENS} lines")
    if min(map(len, secrets)) < MIN_BYTES:
        raise TokenError(f"{source}: a token is shorter than {MIN_BYTES} characters; write one with `openssl rand -hex 32`")
    return tuple(Token(hashlib.sha256(b"hyperscale link key id\0" + secret).hexdigest()[:16], secret) for secret in secrets)


class TokenFile:
    """The tokens of a file that may change at any time. A file that cannot be read leaves the last good tokens in force."""

    def __init__(self, path: Path, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Reads nothing yet."""
        self._path = path
        self._monotonic = monotonic
        self._checked = -float("inf")
        self._current: tuple[Token, ...] = ()
        self._former: dict[str, tuple[Token, float]] = {}
        self.fault: str | None = None
        """What is wrong with the file now, for logs; never its content."""

    def own(self) -> Token:
        """The token to prove oneself with; raises TokenError while no good file was ever seen."""
        self._refresh()
        if not self._current:
            raise TokenError(self.fault or f"{self._path}: holds no token")
        return self._current[0]

    def token_of(self, key_id: str) -> Token | None:
        """The token of that name, current or lately replaced; None when there is none."""
        self._refresh()
        for token in self._current:
            if token.key_id == key_id:
                return token
        former = self._former.get(key_id)
        return former[0] if former and former[1] > self._monotonic() else None

    def _refresh(self) -> None:
        now = self._monotonic()
        if now - self._checked < CHECK_SECONDS:
            return
        self._checked = now
        try:
            with self._path.open("rb") as file:
                tokens = parse(file.read(MAX_FILE_BYTES).decode(), str(self._path))
        except UnicodeDecodeError:
            self.fault = f"{self._path}: is no text"
        except OSError as error:
            self.fault = f"{self._path}: cannot be read ({error.strerror})"
        except TokenError as error:
            self.fault = str(error)
        else:
            self._replace(tokens, now)

    def _replace(self, tokens: tuple[Token, ...], now: float) -> None:
        kept = {token.key_id for token in tokens}
        self._former = {key: entry for key, entry in self._former.items() if entry[1] > now and key not in kept}
        for token in self._current:
            if token.key_id not in kept:
                self._former[token.key_id] = (token, now + GRACE_SECONDS)
        while len(self._former) > MAX_TOKENS:
            del self._former[min(self._former, key=lambda key: self._former[key][1])]
        self._current, self.fault = tokens, None
