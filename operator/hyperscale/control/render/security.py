"""Pod Security Standards, level restricted: set where the template is silent, refused by path where it asks for more.

Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted. A namespace may enforce less; the operator's pods
never need less, and a template that does would be turned away by the namespaces that enforce it.
"""

from __future__ import annotations

from typing import Any, Final

from hyperscale.control.render.template import Json, RenderError, all_containers, mapping_at, mappings_at

USER_ID: Final = 1000
"""User mpiuser of the worker image and of mpi-operator's own base images."""
ALLOWED_VOLUMES: Final = frozenset(
    {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"},
)
ALLOWED_SYSCTLS: Final = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_wmem",
    },
)
ALLOWED_SELINUX_TYPES: Final = frozenset({"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"})
SECCOMP_TYPES: Final = frozenset({"RuntimeDefault", "Localhost"})
APPARMOR_ANNOTATION: Final = "container.apparmor.security.beta.kubernetes.io/"


def harden(metadata: Json, spec: Json, path: str) -> None:
    """Fill and check the security fields of a pod in place; raises RenderError for the first field that restricted forbids.

    metadata, spec: of the pod template
    path:           of the template, e.g. spec.workers.template
    """
    _check_annotations(metadata, f"{path}.metadata")
    pod_path = f"{path}.spec"
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        _must_equal(spec, key, False, pod_path)
    for key in ("automountServiceAccountToken", "enableServiceLinks"):
        if spec.get(key) is None:
            spec[key] = False
    _check_volumes(spec, pod_path)
    if spec.get("ephemeralContainers"):
        raise RenderError(f"{pod_path}.ephemeralContainers", "cannot be part of a template; remove it")
    _harden_pod_context(mapping_at(spec, "securityContext", pod_path), f"{pod_path}.securityContext")
    for container_path, container in all_containers(spec, pod_path):
        _check_host_access(container, container_path)
        _harden_container_context(mapping_at(container, "securityContext", container_path), f"{container_path}.securityContext")


def _refusal(path: str, message: str) -> RenderError:
    return RenderError(path, f"{message} (Pod Security Standard restricted)")


def _must_equal(parent: Json, key: str, wanted: object, path: str) -> None:
    value = parent.get(key)
    if value is not None and value != wanted:
        raise _refusal(f"{path}.{key}", f"must be {str(wanted).lower()} or absent")
    parent[key] = wanted


def _check_annotations(metadata: Json, path: str) -> None:
    annotations = mapping_at(metadata, "annotations", path)
    for key in sorted(annotations, key=str):
        value = annotations[key]
        if str(key).startswith(APPARMOR_ANNOTATION) and value != "runtime/default" and not str(value).startswith("localhost/"):
            raise _refusal(f"{path}.annotations.{key}", "must be runtime/default or localhost/PROFILE")


def _check_volumes(spec: Json, path: str) -> None:
    for index, volume in enumerate(mappings_at(spec, "volumes", path)):
        for kind in sorted(key for key, value in volume.items() if key != "name" and value is not None):
            if kind not in ALLOWED_VOLUMES:
                raise _refusal(f"{path}.volumes[{index}].{kind}", "is not allowed; use a persistentVolumeClaim")


def _harden_pod_context(context: Json, path: str) -> None:
    _check_shared(context, path)
    _must_equal(context, "runAsNonRoot", True, path)
    for key in ("runAsUser", "runAsGroup", "fsGroup"):
        if context.get(key) is None:
            context[key] = USER_ID
    _check_user(context, path)
    if context.get("fsGroupChangePolicy") is None:
        # A checkpoint volume may hold many files; changing the owner of each at every start takes minutes.
        context["fsGroupChangePolicy"] = "OnRootMismatch"
    if context.get("seccompProfile") is None:
        context["seccompProfile"] = {"type": "RuntimeDefault"}
    for index, sysctl in enumerate(mappings_at(context, "sysctls", path) if context.get("sysctls") is not None else []):
        if sysctl.get("name") not in ALLOWED_SYSCTLS:
            raise _refusal(f"{path}.sysctls[{index}].name", "is not a safe sysctl; remove it")


def _harden_container_context(context: Json, path: str) -> None:
    _check_shared(context, path)
    _must_equal(context, "allowPrivilegeEscalation", False, path)
    _must_equal(context, "privileged", False, path)
    if context.get("runAsNonRoot") is not None:
        _must_equal(context, "runAsNonRoot", True, path)
    _check_user(context, path)
    if context.get("procMount") not in (None, "Default"):
        raise _refusal(f"{path}.procMount", "must be Default or absent")
    _harden_capabilities(mapping_at(context, "capabilities", path), f"{path}.capabilities")


def _harden_capabilities(capabilities: Json, path: str) -> None:
    added = capabilities.get("add")
    if added is not None and added != [] and added != ["NET_BIND_SERVICE"]:
        raise _refusal(f"{path}.add", "may hold NET_BIND_SERVICE only")
    dropped = capabilities.get("drop")
    if dropped is not None and not isinstance(dropped, list):
        raise RenderError(f"{path}.drop", "must be a list")
    capabilities["drop"] = ["ALL"]


def _check_user(context: Json, path: str) -> None:
    user = context.get("runAsUser")
    if user is not None and (not isinstance(user, int) or isinstance(user, bool) or user < 1):
        raise _refusal(f"{path}.runAsUser", f"must be a user id of at least 1, e.g. {USER_ID}")


def _check_shared(context: Json, path: str) -> None:
    """What pods and containers have in common."""
    _check_profile(context, "seccompProfile", path)
    _check_profile(context, "appArmorProfile", path)
    _check_selinux(context, path)
    windows: Any = context.get("windowsOptions")
    if isinstance(windows, dict) and windows.get("hostProcess"):
        raise _refusal(f"{path}.windowsOptions.hostProcess", "must be false or absent")


def _check_profile(context: Json, key: str, path: str) -> None:
    if context.get(key) is not None and mapping_at(context, key, path).get("type") not in SECCOMP_TYPES:
        raise _refusal(f"{path}.{key}.type", "must be RuntimeDefault or Localhost")


def _check_selinux(context: Json, path: str) -> None:
    if context.get("seLinuxOptions") is None:
        return
    options = mapping_at(context, "seLinuxOptions", path)
    if (options.get("type") or "") not in ALLOWED_SELINUX_TYPES or options.get("user") or options.get("role"):
        raise _refusal(f"{path}.seLinuxOptions", "may only set level, or a container_* type")


def _check_host_access(container: Json, path: str) -> None:
    for index, port in enumerate(mappings_at(container, "ports", path) if container.get("ports") is not None else []):
        if port.get("hostPort"):
            raise _refusal(f"{path}.ports[{index}].hostPort", "must be absent")
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        _check_handler(container.get(key), f"{path}.{key}")
    lifecycle = container.get("lifecycle")
    if isinstance(lifecycle, dict):
        for key in ("postStart", "preStop"):
            _check_handler(lifecycle.get(key), f"{path}.lifecycle.{key}")


def _check_handler(handler: object, path: str) -> None:
    """A probe may not point at another host (restricted since 1.34)."""
    if not isinstance(handler, dict):
        return
    for key in ("httpGet", "tcpSocket"):
        if isinstance(handler.get(key), dict) and handler[key].get("host"):
            raise RenderError(f"{path}.{key}.host", "must be absent; the pod's own address is used")
