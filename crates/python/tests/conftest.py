"""The wheel, installed, beside the command: `cargo xtask dist --check --only wheel` runs these tests, and says where the command is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CORPUS = ROOT / "corpus"
SVM = CORPUS / "x86-svm/t2.data.gz"

# The command as a program, and the one that the wheel installs.
BINARY = os.environ["EXITSCOPE_BINARY"]
SCRIPT = str(Path(sys.executable).with_name("exitscope"))

# A day of two VMs: `db` writes to its serial port once in so many requests.
DAY = """
name = "day"
duration = "400ms"

[host]
arch = "svm"
cores = 4

[[vm]]
name = "web"

[[vm.program]]
steps = [{{ forever = [{{ compute = {{ exponential = "400us" }} }}, {{ port_out = 0x80 }}, "count"] }}]

[[vm]]
name = "db"

[[vm.program]]
steps = [{{ forever = [
    {{ compute = {{ exponential = "60us" }} }},
    {{ pick = [{{ weight = {quiet}, steps = [] }}, {{ weight = 1, steps = [{{ port_out = 0x3f8 }}] }}] }},
    "count",
] }}]
"""


def printed(*arguments: str | Path) -> str:
    """What the command prints."""
    return subprocess.run([BINARY, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="session")
def days(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three recordings: of the day before, of yesterday, and of today, when `db` began to write more."""
    folder = tmp_path_factory.mktemp("days")
    recordings = {}
    for seed, (day, quiet) in enumerate({"before": 60, "yesterday": 60, "today": 2}.items(), 1):
        scenario, recording = folder / f"{day}.toml", folder / f"{day}.data"
        scenario.write_text(DAY.format(quiet=quiet))
        printed("sim", scenario, "--seed", str(seed), "--trace", recording)
        recordings[day] = recording
    return recordings
