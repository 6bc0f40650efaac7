"""Finished runs in SQLite, and in PostgreSQL where the machine has it."""

from __future__ import annotations

import contextlib
import math
import os
import pwd
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from hyperscale.control.history.calibration import calibrate
from hyperscale.control.history.run_store import HistoryError, RunStore
from hyperscale.control.history.runs_table import FinishedRun
from hyperscale.model.api.measured import Measured
from hyperscale.model.history.corrections import COST_MODEL
from tests.builders.history import RUN, open_files

POSTGRES = next((folder for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)


def run(number: int, **changes: object) -> FinishedRun:
    return msgspec.structs.replace(RUN, **{"uid": str(number), "finished_at": 1000.0 + number, **changes})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a PostgreSQL server of its own on a Unix socket; skipped where the machine has none."""
    if POSTGRES is None:
        pytest.skip("PostgreSQL is not installed")
    folder = tmp_path_factory.mktemp("pg")
    as_other: list[str] = []
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        try:
            account = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("PostgreSQL does not run as root, and there is no account postgres")
        for parent in (folder, *folder.parents):
            if parent.stat().st_uid == 0 and parent != Path("/") and not parent.stat().st_mode & 0o001:
                parent.chmod(parent.stat().st_mode | 0o011)
        os.chown(folder, account.pw_uid, account.pw_gid)
        as_other = [shutil.which("setpriv") or "setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
    data, user = folder / "data", "hyperscale"
    subprocess.run(
        [*as_other, str(POSTGRES / "initdb"), "-D", str(data), "-U", user, "-A", "trust", "--no-sync"],
        check=True,
        capture_output=True,
        cwd=folder,
    )
    options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
    control = [*as_other, str(POSTGRES / "pg_ctl"), "-D", str(data), "-w", "-t", "120"]
    subprocess.run([*control, "-o", options, "-l", str(folder / "log"), "start"], check=True, capture_output=True, cwd=folder)
    yield f"postgresql://{user}@/postgres?host={folder}"
    subprocess.run([*control, "-m", "immediate", "stop"], check=True, capture_output=True, cwd=folder)


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def history(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunStore]:
    url = f"sqlite:///{tmp_path}/history.sqlite" if request.param == "SQLite" else request.getfixturevalue("server")
    made = RunStore(url)
    with made._engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM hyperscale_runs")
    yield made
    made.close()


def test_a_run_is_read_back_as_it_was_written(history: RunStore) -> None:
    assert history.record([RUN]) == 1
    assert history.runs(10) == (RUN,)


def test_a_run_recorded_twice_is_there_once(history: RunStore) -> None:
    assert history.record([RUN, RUN]) == 1
    assert history.record([RUN]) == 0
    assert len(history.runs(10)) == 1


def test_what_a_run_says_last_counts(history: RunStore) -> None:
    history.record([msgspec.structs.replace(RUN, measured="", measured_seconds=None)])
    assert history.record([RUN]) == 1
    assert history.runs(10) == (RUN,)


def test_the_newest_runs_come_first_and_only_so_many(history: RunStore) -> None:
    history.record([run(number, architecture="GAT" if number % 2 else "GCN") for number in range(6)])
    assert [found.uid for found in history.runs(3)] == ["5", "4", "3"]
    assert [found.uid for found in history.runs(3, "GCN")] == ["4", "2", "0"]


def test_a_correction_needs_enough_runs_of_one_architecture_on_one_mix(history: RunStore) -> None:
    history.record([run(number, measured_seconds=2.0 + 0.1 * number) for number in range(5)])
    history.record([run(10 + number, products="T4") for number in range(4)])
    history.record([run(20 + number, architecture="GAT") for number in range(4)])
    found = history.calibrations(5)
    assert found.keys() == {"GCN"}
    (known,) = found["GCN"]
    assert (known.products, known.factor, known.runs) == ("A100", 2.2, 5)


STAND_IN = msgspec.json.encode(Measured(epoch=9, epochs=9, epoch_seconds=2.0, generated=True)).decode()


@pytest.mark.parametrize("useless", [{"phase": "Failed"}, {"replans": 1}, {"measured_seconds": None}, {"measured": STAND_IN}], ids=str)
def test_runs_that_were_not_measured_on_one_plan_and_the_graph_itself_teach_nothing(history: RunStore, useless: dict[str, object]) -> None:
    history.record([run(number, plan=plan_json(1), **useless) for number in range(5)])
    assert history.calibrations(1) == {}
    assert history.steps(1) == {}
    history.record([run(5, plan=plan_json(1))])
    assert len(history.steps(1)) == 1


def test_only_the_newest_runs_teach(history: RunStore) -> None:
    history.record([run(number, measured_seconds=50.0 if number < 50 else 3.0) for number in range(250)])
    ((known,),) = history.calibrations(5).values()
    assert (known.factor, known.spread, known.runs) == (3.0, 0.0, 200)


def plan_json(*gpus: int) -> str:
    ranks = [{"node": f"n{place}", "gpus": 1} for place, count in enumerate(gpus) for _ in range(count)]
    return msgspec.json.encode({"workers": ranks, "predicted": {"costModel": COST_MODEL}}).decode()


@pytest.mark.parametrize(("batch", "steps"), [(None, 1), (100, 7)], ids=["full graph", "sampled"])
def test_steps_are_those_of_one_workload_newest_first(history: RunStore, batch: int | None, steps: int) -> None:
    history.record([run(number, batch_size=batch, plan=plan_json(3, 1), measured_seconds=7.0 + number) for number in range(3)])
    history.record([run(10 + number, batch_size=8, plan=plan_json(2)) for number in range(2)])
    ((workload, found),) = history.steps(3).items()
    assert (workload.architecture, workload.batch_size, workload.products) == ("GCN", batch, "A100")
    assert [one.uid for one in found] == ["2", "1", "0"]
    assert found[0].step.counts == (3, 1)
    assert found[0].step.step_seconds == pytest.approx(9.0 / steps)
    assert found[0].step.batch == (677.0 if batch is None else batch)
    assert found[0].predicted_seconds == pytest.approx(1.0 / steps)
    assert history.steps(3) == {workload: found}


def test_absurd_seconds_teach_no_step(history: RunStore) -> None:
    history.record([run(0, plan=plan_json(1), measured_seconds=1e12), run(1, plan=plan_json(1), predicted_seconds=1e-320)])
    history.record([run(2, plan=plan_json(1))])
    (found,) = history.steps(1).values()
    assert [one.uid for one in found] == ["2"]


def test_a_single_wild_run_moves_neither_factor_nor_spread() -> None:
    tame = calibrate("A100", [1.9, 2.0, 2.1, 2.0, 2.05])
    wild = calibrate("A100", [1.9, 2.0, 2.1, 2.0, 2000.0])
    assert tame.factor == wild.factor == 2.0
    assert wild.spread < 0.1


def test_the_spread_is_a_standard_deviation_where_errors_are_normal() -> None:
    tenth = [math.exp(0.1 * each) for each in (-1.2816, -0.8416, -0.5244, -0.2533, 0.0, 0.2533, 0.5244, 0.8416, 1.2816)]
    assert calibrate("", tenth).spread == pytest.approx(0.1, rel=0.3)


def test_no_usable_run_is_no_calibration() -> None:
    with pytest.raises(ValueError, match="at least one run"):
        calibrate("A100", [0.0, math.inf])


@pytest.mark.parametrize("url", ["", "nonsense", "mysql://a/b", "sqlite"])
def test_a_url_that_is_none_says_what_to_write(url: str) -> None:
    with pytest.raises(HistoryError, match="write sqlite:"):
        RunStore(url)


@pytest.mark.parametrize("user", ["me:secret@/db?", "/db?user=me&password=secret&sslpassword=secret&"])
def test_a_database_that_is_away_is_one_line_without_the_password(tmp_path: Path, user: str) -> None:
    with pytest.raises(HistoryError) as caught:
        RunStore(f"postgresql://{user}host={tmp_path}/nowhere")
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(HistoryError, match="unable to open"):
        RunStore(f"sqlite:///{tmp_path}/missing/history.sqlite")


def test_a_database_that_is_refused_is_closed(tmp_path: Path) -> None:
    file = tmp_path / "other.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE others (name TEXT)")
    with pytest.raises(HistoryError, match="no history of runs") as caught:
        RunStore(f"sqlite:///{file}", make=False)
    assert open_files(tmp_path) == set(), caught.value
    file.write_bytes(b"this is no database, and longer than the header of one is" * 9)
    for make in (True, False):
        with pytest.raises(HistoryError, match="not a database") as caught:
            RunStore(f"sqlite:///{file}", make=make)
        assert open_files(tmp_path) == set(), caught.value
