"""Cables between the host and each node, routes, a firewall that keeps pods on this machine, and the shaping of node pairs.

The host is the fabric: what node A sends to node B arrives on A's cable, where links have latencies waits behind a detour (delay.py), and
leaves on B's, where a class of htb for A's addresses limits it.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from e2e.cluster.real.slots import Place, Slot

NAMESPACES: Final = Path("/run/netns")
_FORWARDING: Final = Path("/proc/sys/net/ipv4/ip_forward")
_UNSHAPED: Final = ("htb", "rate", "40gbit", "quantum", "60000", "burst", "1m")
_QUEUE_BYTES: Final = 300_000
_UNSHAPED_CLASS: Final = 99


class NetworkError(Exception):
    """ip, tc or iptables refused."""


def lay(slot: Slot, places: Sequence[Place]) -> None:
    """Everything that the nodes of a slot need; raises NetworkError."""
    for address in (slot.server, slot.dns):
        _run("ip", "address", "replace", f"{address}/32", "dev", "lo")
    _FORWARDING.write_text("1")
    for place in places:
        _cable(place)
    _guard(slot)


def remove(slot: Slot) -> None:
    """Take it all away; what is not there is fine."""
    for place in slot.places:
        _try("ip", "netns", "delete", place.link)
        _try("ip", "link", "delete", place.link)
    for preference in (slot.table, slot.table + 1):
        while _tried("ip", "rule", "delete", "preference", str(preference)):
            pass
    for address in (slot.server, slot.dns):
        _try("ip", "address", "delete", f"{address}/32", "dev", "lo")
    _try("iptables", "-w", "-D", "FORWARD", "-j", slot.chain)
    _try("iptables", "-w", "-F", slot.chain)
    _try("iptables", "-w", "-X", slot.chain)


def _cable(place: Place) -> None:
    _run("ip", "netns", "add", place.link)
    _run("ip", "link", "add", place.link, "type", "veth", "peer", "name", "eth0", "netns", place.link)
    _run("ip", "address", "add", f"{place.gateway}/24", "dev", place.link)
    _run("ip", "link", "set", place.link, "up")
    inside = ("ip", "-n", place.link)
    _run(*inside, "link", "set", "lo", "up")
    _run(*inside, "address", "add", f"{place.address}/24", "dev", "eth0")
    _run(*inside, "link", "set", "eth0", "up")
    _run(*inside, "route", "add", "default", "via", place.gateway)
    # Not `ip netns exec`: it mounts /sys again, without its cgroups.
    _run("nsenter", f"--net={NAMESPACES / place.link}", "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
    _run("ip", "route", "add", place.pod_network, "via", place.address)


def _guard(slot: Slot) -> None:
    """Node to node and node to host, but to no other machine, whatever the host's own firewall does."""
    everywhere = ",".join(slot.networks)
    _run("iptables", "-w", "-N", slot.chain)
    _run("iptables", "-w", "-A", slot.chain, "-s", everywhere, "-d", everywhere, "-j", "ACCEPT")
    _run("iptables", "-w", "-A", slot.chain, "-s", everywhere, "-j", "REJECT")
    _run("iptables", "-w", "-I", "FORWARD", "-j", slot.chain)


def detour(slot: Slot, pairs: Sequence[tuple[Place, Place]]) -> None:
    """Send what pods of one node send to pods of another through the slot's device, which must be there. Its output continues."""
    _run("ip", "link", "set", slot.detour, "up", "txqueuelen", "10000")
    _run("ip", "route", "replace", "default", "dev", slot.detour, "table", str(slot.table))
    _run("ip", "rule", "add", "preference", str(slot.table), "iif", slot.detour, "lookup", "main")
    for source, destination in pairs:
        ends = ("from", source.pod_network, "to", destination.pod_network)
        _run("ip", "rule", "add", "preference", str(slot.table + 1), *ends, "lookup", str(slot.table))


def shape(source: Place, destination: Place, bits_per_second: float) -> None:
    """Limit what one node sends to another, in this direction; may be called again with another rate."""
    device, number = destination.link, source.number + 1
    rate = f"{max(1, round(bits_per_second / 1000))}kbit"
    if "htb 1:" not in _run("tc", "qdisc", "show", "dev", device):
        _run("tc", "qdisc", "add", "dev", device, "root", "handle", "1:", "htb", "default", str(_UNSHAPED_CLASS))
        _run("tc", "class", "add", "dev", device, "parent", "1:", "classid", f"1:{_UNSHAPED_CLASS}", *_UNSHAPED)
    known = re.search(rf"htb 1:{number} ", _run("tc", "class", "show", "dev", device)) is not None
    limits = ("htb", "rate", rate, "ceil", rate, "quantum", "60000", "burst", "64k", "cburst", "64k")
    _run("tc", "class", "replace", "dev", device, "parent", "1:", "classid", f"1:{number}", *limits)
    if known:
        return
    _run("tc", "qdisc", "add", "dev", device, "parent", f"1:{number}", "handle", f"1{number}:", "bfifo", "limit", str(_QUEUE_BYTES))
    for network in (source.pod_network, source.node_network):
        match = ("u32", "match", "ip", "src", network, "flowid", f"1:{number}")
        _run("tc", "filter", "add", "dev", device, "parent", "1:", "protocol", "ip", *match)


def _run(*command: str) -> str:
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        raise NetworkError(f"{' '.join(command)}: {finished.stderr.strip()}")
    return finished.stdout


def _try(*command: str) -> None:
    _tried(*command)


def _tried(*command: str) -> bool:
    with contextlib.suppress(NetworkError, FileNotFoundError):
        _run(*command)
        return True
    return False
