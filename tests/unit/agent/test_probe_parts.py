"""The parts of the link probe that need no network: budget, tokens, smoothing, rates from arrivals, what is said on the wire."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperscale.agent.agent_settings import AgentSettingsError
from hyperscale.agent.probe import probe_wire as wire
from hyperscale.agent.probe.peers import EndpointSlices, Objects, Peer, PeersError, groups_of, of_slices, parse
from hyperscale.agent.probe.probe_quiet import _share, share
from hyperscale.agent.probe.probe_settings import from_environment
from hyperscale.agent.probe.probe_smooth import Smoother
from hyperscale.agent.probe.probe_train import IP_BYTES, PACKET_BYTES, Arrival, limited, measure, packets
from hyperscale.agent.probe.tokens import GRACE_SECONDS, TokenError, TokenFile
from hyperscale.agent.probe.tokens import parse as parse_tokens

SECRET = "0123456789abcdef0123456789abcdef"
OTHER = "fedcba9876543210fedcba9876543210"


class Clock:
    """A clock that the test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def train(rate: float, sent: int, burst: int = 65_536, drop: range = range(0), start: int = 0) -> list[Arrival]:
    """Arrivals behind a shaper: `burst` bytes at once, the rest at `rate` bytes a second."""
    found = []
    for number in range(sent):
        late = max(0.0, (number + 1) * (PACKET_BYTES + IP_BYTES) - burst) / rate
        if number not in drop:
            found.append(Arrival(start + round(late * 1e9), number, sum(1 for one in drop if one < number)))
    return found


@pytest.mark.parametrize("rate", [1.25e6, 2.5e7, 1.25e8, 1.25e9])
def test_a_train_shows_the_rate_of_the_shaper_and_not_its_burst(rate: float) -> None:
    count = packets(None)
    assert measure(train(rate, count), count).bytes_per_second == pytest.approx(rate, rel=0.01)


def test_datagrams_that_the_receiver_dropped_crossed_the_link_all_the_same() -> None:
    rate = measure(train(1e8, 320, drop=range(200, 260)), 320)
    assert rate.bytes_per_second == pytest.approx(1e8, rel=0.05)
    assert rate.arrived == 320


def test_datagrams_that_the_link_dropped_do_not_change_its_rate() -> None:
    arrivals = [Arrival(arrival.nanoseconds, arrival.number, 0) for arrival in train(1e8, 220)]
    rate = measure(arrivals, 320)
    assert rate.bytes_per_second == pytest.approx(1e8, rel=0.01)
    assert rate.arrived == 220


def test_a_gap_of_the_sender_and_the_burst_after_it_do_not_count() -> None:
    whole = train(1e8, 320)
    late = [Arrival(one.nanoseconds + 5_000_000 * (at >= 250), one.number, 0) for at, one in enumerate(whole)]
    assert measure(late, 320).bytes_per_second == pytest.approx(1e8, rel=0.02)


@pytest.mark.parametrize(
    ("arrivals", "fault"),
    [
        ([], "nothing arrived"),
        ([Arrival(5, 0, 0)], "too little arrived"),
        ([Arrival(5, number, 0) for number in range(320)], "too little arrived"),
        ([Arrival(5 + number, 0, 0) for number in range(321)], "disturbed"),
    ],
)
def test_a_train_that_shows_nothing_has_no_rate_but_a_reason(arrivals: list[Arrival], fault: str) -> None:
    rate = measure(arrivals, 320)
    assert (rate.bytes_per_second, rate.fault) == (0.0, fault)


def test_a_train_that_arrives_as_fast_as_it_was_sent_was_held_up_by_its_sender() -> None:
    sent = 300
    seconds = sent * (PACKET_BYTES + IP_BYTES) / 1e9
    assert limited(0.95e9, sent, seconds)
    assert not limited(0.4e9, sent, seconds)


def test_one_outlier_does_not_move_a_figure_and_two_readings_alike_are_a_new_level() -> None:
    smoother = Smoother(window=5, agreeing=2, change_ratio=0.12)
    for reading in (100.0, 101.0, 99.0, 100.0):
        smoother.add(reading)
    assert smoother.add(20.0)
    assert smoother.value == 100.0
    assert not smoother.add(20.5)
    assert smoother.value == 20.25


def test_readings_that_are_no_figures_are_not_taken_in() -> None:
    smoother = Smoother(window=5, agreeing=2, change_ratio=0.12)
    for reading in (float("nan"), float("inf"), 0.0, -1.0):
        assert not smoother.add(reading)
    assert smoother.value is None


def test_a_token_file_is_read_anew_and_the_former_token_is_accepted_for_a_while(tmp_path: Path) -> None:
    file, clock = tmp_path / "token", Clock()
    file.write_text(SECRET + "\n")
    tokens = TokenFile(file, clock)
    old = tokens.own()
    file.write_text(f"{OTHER}\n")
    clock.now = 10.0
    assert tokens.own().secret == OTHER.encode()
    assert tokens.token_of(old.key_id) == old
    clock.now += GRACE_SECONDS + 1
    assert tokens.token_of(old.key_id) is None


def test_a_token_file_that_becomes_unreadable_leaves_the_last_token_in_force(tmp_path: Path) -> None:
    file, clock = tmp_path / "token", Clock()
    file.write_text(f"{SECRET}\n{OTHER}\n")
    tokens = TokenFile(file, clock)
    own = tokens.own()
    file.write_text("short")
    clock.now = 10.0
    assert tokens.own() == own
    assert "shorter than 16" in (tokens.fault or "")


@pytest.mark.parametrize("text", ["", "# only a comment\n", "short\n", "\n".join([SECRET] * 5)])
def test_a_token_file_without_a_sound_token_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(TokenError, match="token"):
        parse_tokens(text, "file")
    (tmp_path / "token").write_text(text)
    with pytest.raises(TokenError):
        TokenFile(tmp_path / "token").own()


def test_no_secret_is_in_the_text_of_a_token() -> None:
    assert SECRET not in repr(parse_tokens(SECRET, "file"))


def test_a_ping_has_64_bytes_and_one_changed_byte_makes_it_nothing() -> None:
    key = b"k" * 32
    content = wire.ping(wire.Ping(wire.PING, b"s" * 8, 7, 1, 2), key)
    assert len(content) == 64
    assert wire.read_ping(content, key) == wire.Ping(wire.PING, b"s" * 8, 7, 1, 2)
    for at in range(64):
        changed = bytearray(content)
        changed[at] ^= 1
        assert wire.read_ping(bytes(changed), key) is None


def test_a_proof_holds_for_its_role_names_and_nonces_only() -> None:
    hello = wire.Hello(1, "a", "n" * 32, "k")
    proofs = {
        wire.proof(b"secret", role, one, name, nonce)
        for role in ("client", "server")
        for one in (hello, wire.Hello(1, "b", "n" * 32, "k"), wire.Hello(1, "a", "m" * 32, "k"))
        for name in ("x", "y")
        for nonce in ("1", "2")
    }
    assert len(proofs) == 24


def test_a_sealed_frame_opens_in_its_place_only() -> None:
    sealed = wire.sealed(b"body", b"k" * 32, "client", 3)
    assert wire.opened(sealed, b"k" * 32, "client", 3) == b"body"
    for key, role, count in ((b"j" * 32, "client", 3), (b"k" * 32, "server", 3), (b"k" * 32, "client", 4)):
        with pytest.raises(wire.WireError):
            wire.opened(sealed, key, role, count)
    with pytest.raises(wire.WireError):
        wire.opened(b"", b"k" * 32, "client", 3)


def test_peers_are_read_from_a_list() -> None:
    assert parse("b@rack=10.0.0.2:9466, a=[fd00::1]:9467,") == (Peer("a", "fd00::1", 9467), Peer("b", "10.0.0.2", 9466, "rack"))
    assert parse("") == ()


@pytest.mark.parametrize("text", ["a", "a=b", "a=b:x", "a=b:0", "a=b:70000", "=b:1", "a=1.2.3.4:1,a=1.2.3.4:2"])
def test_a_list_of_peers_that_cannot_be_read_says_which_part(text: str) -> None:
    with pytest.raises(PeersError):
        parse(text)
    with pytest.raises(AgentSettingsError, match="HYPERSCALE_AGENT_PEERS"):
        from_environment({"HYPERSCALE_AGENT_PEERS": text})


@pytest.mark.parametrize(
    ("variable", "value"),
    [("BUDGET_BYTES_PER_SECOND", "1"), ("KEEP_SECONDS", "soon"), ("LINKS", "perhaps"), ("TRAINING_URLS", "file:///etc/passwd")],
)
def test_settings_that_cannot_be_name_their_variable(variable: str, value: str) -> None:
    with pytest.raises(AgentSettingsError, match=f"HYPERSCALE_AGENT_{variable}: .*write"):
        from_environment({f"HYPERSCALE_AGENT_{variable}": value})


def test_endpoints_without_a_node_or_with_an_address_that_is_none_are_left_out() -> None:
    import msgspec

    page = msgspec.json.decode(
        b'{"metadata":{},"items":[{"addressType":"IPv4","endpoints":['
        b'{"addresses":["10.0.0.1"],"nodeName":"a","zone":"z1","conditions":{"ready":true}},'
        b'{"addresses":["evil.example"],"nodeName":"b"},{"addresses":["10.0.0.3"]},'
        b'{"addresses":["224.0.0.1"],"nodeName":"d"},{"addresses":["10.0.0.5"],"nodeName":"e"}]},{"endpoints":null}]}',
        type=EndpointSlices,
    )
    assert of_slices((page,), {"e": "rack"}, 9466) == (Peer("a", "10.0.0.1", 9466, "z1"), Peer("e", "10.0.0.5", 9466, "rack"))


def test_the_narrowest_label_under_its_zone_names_a_group() -> None:
    import msgspec

    page = msgspec.convert(
        {
            "items": [
                {"metadata": {"name": "a", "labels": {"leaf": "1", "topology.kubernetes.io/zone": "z"}}},
                {"metadata": {"name": "b", "labels": {"topology.kubernetes.io/zone": "z"}}},
                {"metadata": {"name": "c"}},
            ]
        },
        type=Objects,
    )
    labels = ("leaf", "topology.kubernetes.io/zone")
    assert groups_of((page,), labels) == {"a": "z/leaf=1", "b": "z/topology.kubernetes.io/zone=z"}


def test_a_worker_that_no_name_server_can_be_asked_for_says_nothing() -> None:
    assert _share("http://a..b:9464/metrics") == 0.0


def test_the_share_of_communication_comes_from_the_workers_own_phases() -> None:
    text = (
        'hyperscale_training_phase_seconds{phase="forward",rank="0"} 1.0\n'
        'hyperscale_training_phase_seconds{phase="halo",rank="0"} 3.0\n'
        'hyperscale_training_phase_seconds{phase="halo",rank="1"} NaN\n'
        "hyperscale_training_loss 7\n"
    )
    assert share(text) == 0.75
    assert share("") == 0.0
