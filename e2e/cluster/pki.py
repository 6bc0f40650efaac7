"""Certificates and kubeconfigs of one cluster, made with openssl: P-256 keys, valid for ten years, readable by the owner only."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

DAYS_VALID: Final = "3650"


# RFC 5280, sections 4.2.1.1 to 4.2.1.3: Python's clients have verified these since 3.13 (python/cpython#107361).
_USE: Final = "keyUsage=critical,digitalSignature\nsubjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid:always"


class PkiError(Exception):
    """openssl is missing or refused."""


@dataclass(frozen=True, slots=True)
class Client:
    """A user of the API server."""

    name: str
    """Common name of the certificate: the user in RBAC and in the audit log."""
    groups: tuple[str, ...] = ()


class Pki:
    """The authority, the server's certificate, the service account key, and client certificates below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = folder / "ca.crt"
        self.server_certificate = folder / "apiserver.crt"
        self.server_key = folder / "apiserver.key"
        self.service_account_key = folder / "sa.key"
        self.service_account_public = folder / "sa.pub"

    def create(self, clients: Mapping[str, Client], address: str = "127.0.0.1") -> None:
        """Write everything; `clients` maps a file stem to the user, `address` is where the server listens."""
        self.folder.mkdir(parents=True, exist_ok=True)
        os.chmod(self.folder, 0o700)
        self._key("ca")
        self._key("sa")
        _openssl("ec", "-in", str(self.service_account_key), "-pubout", "-out", str(self.service_account_public))
        # fmt: off
        _openssl("req", "-x509", "-new", "-key", self._path("ca.key"), "-days", DAYS_VALID, "-out", self._path("ca.crt"),
                 "-subj", "/CN=hyperscale-local-cluster", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
        # fmt: on
        names = f"DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,IP:{address}"
        with ThreadPoolExecutor(4) as pool:
            server = pool.submit(self._certificate, "apiserver", "/CN=kube-apiserver", f"subjectAltName={names}", 1)
            others = [
                pool.submit(self._certificate, stem, subject(client), "extendedKeyUsage=clientAuth", number)
                for number, (stem, client) in enumerate(clients.items(), start=2)
            ]
            for made in (server, *others):
                made.result()

    def client_files(self, stem: str) -> tuple[Path, Path]:
        """(certificate, key) of a client."""
        return self.folder / f"{stem}.crt", self.folder / f"{stem}.key"

    def kubeconfig(self, stem: str, server: str) -> str:
        """A kubeconfig with everything embedded."""
        certificate, key = self.client_files(stem)
        return kubeconfig_text(
            server, self.authority.read_bytes(), {"client-certificate-data": _encoded(certificate), "client-key-data": _encoded(key)}
        )

    def _path(self, name: str) -> str:
        return str(self.folder / name)

    def _key(self, stem: str) -> None:
        _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self._path(f"{stem}.key"))
        os.chmod(self._path(f"{stem}.key"), 0o600)

    def _certificate(self, stem: str, subject_name: str, extension: str, serial: int) -> None:
        self._key(stem)
        extensions, request = self.folder / f"{stem}.ext", self.folder / f"{stem}.csr"
        extensions.write_text(f"basicConstraints=CA:FALSE\n{_USE}\n{extension}\n")
        _openssl("req", "-new", "-key", self._path(f"{stem}.key"), "-out", str(request), "-subj", subject_name)
        # fmt: off
        _openssl("x509", "-req", "-in", str(request), "-CA", str(self.authority), "-CAkey", self._path("ca.key"),
                 "-set_serial", str(serial), "-days", DAYS_VALID, "-out", self._path(f"{stem}.crt"), "-extfile", str(extensions))
        # fmt: on
        extensions.unlink()
        request.unlink()


def subject(client: Client) -> str:
    """The certificate subject that Kubernetes reads as user and groups."""
    return "".join(f"/O={group}" for group in client.groups) + f"/CN={client.name}"


def kubeconfig_text(server: str, authority: bytes, user: Mapping[str, str]) -> str:
    """A kubeconfig with one cluster and one user, as YAML."""
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(authority).decode()}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "hyperscale", "cluster": cluster}],
            "users": [{"name": "user", "user": dict(user)}],
            "contexts": [{"name": "hyperscale", "context": {"cluster": "hyperscale", "user": "user"}}],
            "current-context": "hyperscale",
        },
        sort_keys=False,
    )


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _openssl(*arguments: str) -> None:
    executable = shutil.which("openssl")
    if executable is None:
        raise PkiError("the openssl command is missing: install the package openssl")
    finished = subprocess.run([executable, *arguments], capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        raise PkiError(f"openssl {arguments[0]} failed: {finished.stderr.strip()[-500:]}")
