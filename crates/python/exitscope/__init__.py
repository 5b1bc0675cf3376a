"""Where virtual machines lose time in VM exits: recordings as tables and as reports.

>>> import exitscope
>>> recording = exitscope.read("perf.data")
>>> recording.report()["causes"][0]["reason"]
'vintr'
>>> polars.DataFrame(recording.facts(by=["vm", "reason"]))

Tables are Arrow's: pandas, polars, DuckDB and pyarrow take them without a copy. Reports are what the command prints with
`--format json`; their types are in `exitscope.schemas`. An `Error` has the command's words.
"""

from __future__ import annotations

import json as _json
import os
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Union, cast

from . import _native
from ._native import Error, Table

if TYPE_CHECKING:
    from .schemas import AdviceReport, Comparison, Report

__all__ = ["CoverageWarning", "Error", "Recording", "Table", "diff", "read"]

_Path = Union[str, "os.PathLike[str]"]


class CoverageWarning(UserWarning):
    """A part of the recording was lost or is damaged: figures are too low, or miss a stretch of time."""


def read(
    *files: _Path,
    vm: str | int | Iterable[str | int] = (),
    vcpu: int | Iterable[int] = (),
    reason: str | Iterable[str] = (),
    from_: str | None = None,
    to: str | None = None,
    longer_than: str | None = None,
    where: str | None = None,
    devices: _Path | None = None,
    tsc_hz: int | None = None,
    xen_mode: str | None = None,
    force: bool = False,
) -> Recording:
    """One recording, in one file or in several: perf.data, trace.dat, text of ftrace, or a log of xentrace.

    The rest selects exits, each as the command's flag of that name: `vm` by name or process id, `from_` and `to` like "30.5" or
    "+1.5s", `longer_than` like "200us", `where` like "reason = io and cost > 100us". Files are read by the methods, each time.
    """
    if not files:
        raise TypeError("read() takes the path of a recording")
    select = _flags(
        vm=vm, vcpu=vcpu, reason=reason, from_=from_, to=to, longer_than=longer_than, where=where,
        tsc_hz=tsc_hz, xen_mode=xen_mode, force=force,
    )  # fmt: skip
    paths = [os.fspath(file) for file in files]
    for path in paths:
        _native.check(path)
    return Recording(paths, select, _flags(devices=devices))


class Recording:
    """A recording, and which of its exits are looked at; made by `read`."""

    __slots__ = ("_files", "_names", "_select")

    def __init__(self, files: list[str], select: list[str], names: list[str]) -> None:
        self._files, self._select, self._names = files, select, names

    def __repr__(self) -> str:
        return f"<exitscope.Recording {' '.join(self._files + self._select + self._names)}>"

    def exits(self, columns: Sequence[str] | None = None) -> Table:
        """A row for each exit, with all columns or with these: those of `exitscope export --format csv` (docs/columns.md)."""
        names = None if columns is None else _strings(columns)
        return _told(_native.exits(self._line("export", "--format=csv"), names))

    def halts(self) -> Table:
        """The halts of each vCPU, with their distributions: the columns of a store's table `halts` (docs/columns.md)."""
        return _told(_native.halts(self._line("report", "--view=halt")))

    def vcpus(self) -> Table:
        """How the wall time of each vCPU divides: guest, kernel, user space, polling, halted, steal, …"""
        return _told(_native.vcpus(self._line("report", "--format=csv")))

    def facts(self, by: str | Iterable[str] = ("reason",), interval: str | None = None) -> Table:
        """Exits grouped by any of vm, vcpu, reason, subject, handler, port, mmio, msr, hypercall, cpuid, rip, cpu, time: the rows
        of `exitscope report --by … --format csv`, costliest first. `interval` is the width of a bucket of time, like "100ms"."""
        return _told(_native.facts(self._line("report", "--format=csv", *_flags(by=by, interval=interval))))

    def report(self, by: str | Iterable[str] = (), interval: str | None = None, top: int | None = None) -> Report:
        """The whole report, as `exitscope report --format json` prints it. `by`, `interval` and `top` are of its `rows`."""
        flags = _flags(by=by, interval=interval, top=top)
        return cast("Report", _json_of("exitscope.report/1", self._line("report", *flags)))

    def advise(self) -> AdviceReport:
        """What to change so that exits, wake-ups and steal take less time, as `exitscope advise --format json` prints it."""
        if len(self._files) > 1:
            raise Error("advise() takes a recording of one file")
        return cast("AdviceReport", _json_of("exitscope.advise/1", self._line("advise")))

    def _line(self, name: str, *flags: str) -> list[str]:
        files = [f"--input={file}" for file in self._files]
        return ["exitscope", name, *files, *self._select, *self._names, *flags]


def diff(
    before: _Path | Recording | Sequence[_Path | Recording],
    after: _Path | Recording | Sequence[_Path | Recording],
    confidence: float | None = None,
    work: tuple[float, float] | None = None,
) -> Comparison:
    """What changed from some recordings to others, as `exitscope diff --format json` prints it.

    Recordings of `read` must select the same exits. `confidence` is in per cent; `work` is what was done in each recording of either
    side, such as requests.
    """
    sides = [_recordings(before), _recordings(after)]
    selects = {tuple(recording._select) for side in sides for recording in side}
    if len(selects) > 1:
        raise Error("diff() compares recordings of which the same exits are selected")
    files = [
        f"--{name}={file}"
        for name, side in zip(("before", "after"), sides)
        for recording in side
        for file in recording._files
    ]
    flags = _flags(confidence=confidence, work=None if work is None else f"{work[0]},{work[1]}")
    line = ["exitscope", "diff", *files, *next(iter(selects), ()), *flags]
    return cast("Comparison", _json_of("exitscope.diff/1", line))


def _recordings(side: _Path | Recording | Sequence[_Path | Recording]) -> list[Recording]:
    of = [side] if isinstance(side, (str, os.PathLike, Recording)) else list(side)
    return [one if isinstance(one, Recording) else read(one) for one in of]


def _strings(values: Any) -> list[str]:
    """One value, or several."""
    if isinstance(values, (str, int, float, os.PathLike)):
        values = [values]
    return [os.fspath(value) if isinstance(value, os.PathLike) else str(value) for value in values]


def _flags(**values: Any) -> list[str]:
    """Values as the command's flags: `longer_than="1us"` is --longer-than=1us."""
    flags: list[str] = []
    for name, value in values.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        if value is True:
            flags.append(flag)
        elif value is not None and value is not False:
            flags += [f"{flag}={text}" for text in _strings(value)]
    return flags


def _json_of(schema: str, line: list[str]) -> dict[str, Any]:
    value: dict[str, Any] = _json.loads(_native.json([*line, "--format=json"]))
    if value["schema"] != schema:
        raise Error(f"these are texts of counts, of which the command makes {value['schema']}, and no recordings")
    return value


def _told(told: tuple[Table, list[str]]) -> Table:
    """The table; what was lost or damaged is a warning, as the command prints it."""
    table, damage = told
    for line in damage:
        warnings.warn(line, CoverageWarning, stacklevel=3)
    return table
