"""The command of the wheel is the program: what it prints, how it ends, by itself, by signals and by closed pipes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BINARY, ROOT, SCRIPT, SVM

COMMANDS = [[BINARY], [SCRIPT], [sys.executable, "-m", "exitscope"]]


def ended(command: list[str], arguments: list[str]) -> tuple[int, str, str]:
    """How a command ended, and what it printed."""
    said = subprocess.run([*command, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=ROOT)
    return said.returncode, said.stdout, said.stderr


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--version"], 0),
        (["report", "--help"], 0),
        (["report", str(SVM)], 0),
        (["report", str(SVM), "--fail-on", "count(*)>1"], 1),
        (["report", "no/such.data"], 2),
        (["report", "--no-such-flag"], 2),
        (["report", "--by", "nothing", str(SVM)], 2),
        ([], 2),
        (["--watch-trial"], 2),
    ],
)
def test_ends_as_the_program_does(arguments: list[str], status: int) -> None:
    expected = ended(COMMANDS[0], arguments)
    assert expected[0] == status
    for command in COMMANDS[1:]:
        assert ended(command, arguments) == expected, command


@pytest.mark.parametrize("arguments", [["events", str(SVM)], ["report", str(SVM), "--all"], ["export", str(SVM), "--format", "csv"]])
def test_a_closed_pipe_is_no_complaint(arguments: list[str]) -> None:
    ends = []
    for command in COMMANDS:
        process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout and process.stderr
        assert process.stdout.read(10)
        process.stdout.close()
        complaint = process.stderr.read()
        ends.append((process.wait(), complaint))
    assert ends == [ends[0]] * len(COMMANDS)
    assert ends[0][0] == 0


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_as_it_ends_the_program(which: signal.Signals) -> None:
    """While it reads a pipe that does not end, nothing catches signals; a server catches them, and ends by itself."""
    reads, serves = [], []
    for command in COMMANDS:
        process = subprocess.Popen([*command, "report", "-"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert process.stdin
        # More than a pipe holds (pipe(7): 64 KiB): when all is taken, it reads.
        process.stdin.write(b"x" * (1 << 20))
        process.stdin.flush()
        process.send_signal(which)
        reads.append(process.wait())
        process = subprocess.Popen(
            [*command, "serve", "--listen", "127.0.0.1:0", str(SVM)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert process.stdout
        while b"http://" not in process.stdout.readline():
            pass
        process.send_signal(which)
        process.stdout.close()
        serves.append(process.wait())
    assert reads == [-which] * len(COMMANDS)
    assert serves == [serves[0]] * len(COMMANDS)


def test_it_starts_itself_once_more(tmp_path: Path) -> None:
    """A trial of a setting in a made tree: its watchdog is another process of the command, and restores what was there."""
    knob = tmp_path / "sys/module/kvm/parameters/halt_poll_ns"
    knob.parent.mkdir(parents=True)
    metric = f"cat {knob}"
    ends = []
    for command in COMMANDS:
        knob.write_text("200000\n")
        trial = ["try", "halt_poll_ns=0", "--no-count", "--yes", "--metric", metric, "--better", "lower", "--seed", "7"]
        trial += ["--turn", "30ms", "--settle", "1ms", "--for", "60s", "--root", str(tmp_path)]
        trial += ["--state", str(tmp_path / "state/applied.json")]
        status, out, complaint = ended(command, trial)
        assert "halt_poll_ns=0" in out, complaint
        assert knob.read_text().strip() == "200000"
        ends.append(status)
    assert ends == [ends[0]] * len(COMMANDS)
