"""Pod Security Standard restricted, written from its documentation and not from the renderer: says what a pod template does wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
PROFILES = {"RuntimeDefault", "Localhost"}


def breaches(template: dict[str, Any]) -> list[str]:
    """Every field of a pod template that level restricted (which includes baseline) would turn away."""
    return list(_breaches(template))


def _breaches(template: dict[str, Any]) -> Iterator[str]:
    spec = template["spec"]
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(key):
            yield key
    for volume in spec.get("volumes", []):
        if not set(volume) - {"name"} <= VOLUMES:
            yield f"volume {volume}"
    for key, value in template.get("metadata", {}).get("annotations", {}).items():
        if key.startswith("container.apparmor.security.beta.kubernetes.io/") and not value.startswith(("runtime/default", "localhost/")):
            yield f"annotation {key}"
    pod = spec.get("securityContext", {})
    yield from _context(pod, "pod")
    for sysctl in pod.get("sysctls", []):
        if not sysctl["name"].startswith(("net.ipv4.ip_unprivileged_port_start", "net.ipv4.tcp_keepalive_time")):
            yield f"sysctl {sysctl}"
    for container in [*spec.get("containers", []), *spec.get("initContainers", [])]:
        yield from _container(container, pod)


def _container(container: dict[str, Any], pod: dict[str, Any]) -> Iterator[str]:
    own = container.get("securityContext", {})
    name = container.get("name", "?")
    yield from _context(own, name)
    if own.get("allowPrivilegeEscalation") is not False:
        yield f"{name}: allowPrivilegeEscalation"
    if own.get("privileged"):
        yield f"{name}: privileged"
    if own.get("procMount") not in (None, "Default"):
        yield f"{name}: procMount"
    if "ALL" not in own.get("capabilities", {}).get("drop", []):
        yield f"{name}: capabilities.drop"
    if set(own.get("capabilities", {}).get("add") or []) - {"NET_BIND_SERVICE"}:
        yield f"{name}: capabilities.add"
    if own.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
        yield f"{name}: runAsNonRoot"
    if own.get("seccompProfile", pod.get("seccompProfile", {})).get("type") not in PROFILES:
        yield f"{name}: seccompProfile"
    yield from _host_access(container, name)


def _host_access(container: dict[str, Any], name: str) -> Iterator[str]:
    if any(port.get("hostPort") for port in container.get("ports", [])):
        yield f"{name}: hostPort"
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        for action in ("httpGet", "tcpSocket"):
            if container.get(key, {}).get(action, {}).get("host"):
                yield f"{name}: {key}"


def _context(context: dict[str, Any], name: str) -> Iterator[str]:
    if context.get("runAsUser") == 0:
        yield f"{name}: runAsUser"
    for key in ("seccompProfile", "appArmorProfile"):
        if key in context and context[key].get("type") not in PROFILES:
            yield f"{name}: {key}"
    if context.get("windowsOptions", {}).get("hostProcess"):
        yield f"{name}: hostProcess"
    labels = context.get("seLinuxOptions", {})
    if labels.get("user") or labels.get("role") or not labels.get("type", "container_t").startswith("container_"):
        yield f"{name}: seLinuxOptions"
