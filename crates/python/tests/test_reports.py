"""Reports are what the command prints, errors have its words, and all of it has types."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path

import exitscope
import pytest
from conftest import BINARY, CORPUS, ROOT, SVM, printed

COUNTS = ROOT / "crates/trace/tests/fixtures/counts/kvm-stat.txt"


def test_reports_and_advice_are_those_of_the_command() -> None:
    recording = exitscope.read(SVM, reason=["io", "npf"])
    assert recording.report(by=["vcpu"], top=1) == json.loads(
        printed("report", SVM, "--reason", "io,npf", "--by", "vcpu", "--top", "1", "--format", "json")
    )
    with pytest.raises(exitscope.Error, match="omit --reason"):
        recording.advise()
    recording = exitscope.read(SVM, vm=121, from_="+1s")
    assert recording.advise() == json.loads(printed("advise", SVM, "--vm", "121", "--from", "+1s", "--format", "json"))


def test_comparisons_are_those_of_the_command(days: dict[str, Path]) -> None:
    of = {day: str(path) for day, path in days.items()}
    files = ["--before", of["before"], "--before", of["yesterday"], "--after", of["today"]]
    expected = json.loads(printed("diff", *files, "--confidence", "90", "--format", "json"))
    before = [exitscope.read(days["before"]), days["yesterday"]]
    assert exitscope.diff(before, days["today"], confidence=90) == expected
    with pytest.raises(exitscope.Error, match="the same exits"):
        exitscope.diff(exitscope.read(days["before"], reason="io"), days["today"])
    narrowed = [exitscope.read(days[day], vm="db") for day in ("yesterday", "today")]
    assert exitscope.diff(*narrowed)["before"]["exits"] < exitscope.diff(days["yesterday"], days["today"])["before"]["exits"]


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("no/such.data", {}),
        (ROOT / "Makefile", {}),
        (SVM, {"vm": "nobody"}),
        (SVM, {"reason": "iо"}),
        (SVM, {"longer_than": "long"}),
        (SVM, {"where": "cost >"}),
        (SVM, {"vcpu": -1}),
        (CORPUS / "xen/hvm1_dm_sched_hvm.xentrace.gz", {}),
    ],
)
def test_an_error_has_the_words_of_the_command(path: str | Path, options: dict[str, str | int]) -> None:
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    said = subprocess.run([BINARY, "report", f"--input={path}", "--format=csv", *flags], capture_output=True, text=True)
    assert said.returncode == 2
    with pytest.raises(exitscope.Error) as error:
        exitscope.read(path, **options).facts()  # type: ignore[arg-type]
    words = str(error.value)
    assert words and (f"exitscope: {words}\n" == said.stderr or said.stderr.startswith(f"error: {words}\n")), said.stderr


def test_what_python_cannot_do_is_said() -> None:
    with pytest.raises(TypeError, match="the path of a recording"):
        exitscope.read()
    with pytest.raises(exitscope.Error, match="standard input can be read once"):
        exitscope.read("-")
    with pytest.raises(exitscope.Error, match="recording of one file"):
        exitscope.read(SVM, CORPUS / "x86-svm/t4-none.dat.gz").advise()
    counts = exitscope.read(COUNTS)
    for method in (counts.report, counts.advise, counts.facts, counts.halts, counts.vcpus):
        with pytest.raises(exitscope.Error, match="counts"):
            method()


def checks(*arguments: str) -> None:
    """A tool of types has nothing to say."""
    said = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, cwd=Path(__file__).parent)
    assert said.returncode == 0, said.stdout + said.stderr


def test_types_are_complete_and_those_of_the_module() -> None:
    checks("mypy", "--strict", "typed.py")
    checks("mypy.stubtest", "exitscope")


def test_a_recording_is_selected_by_every_flag_that_selects() -> None:
    names = (ROOT / "docs/names-v1.txt").read_text().splitlines()
    flags = {line.split()[-1] for line in names if line.startswith("flag exitscope export ")}
    others = {"--format", "--help", "--input", "--interval", "--output"}
    aliases = {"--cpu-hz", "--pid", "--than"}
    parameters = inspect.signature(exitscope.read).parameters
    of = {"--" + name.rstrip("_").replace("_", "-") for name in parameters if name != "files"}
    assert of == flags - others - aliases
