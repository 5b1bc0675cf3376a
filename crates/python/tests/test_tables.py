"""Tables hold what the command prints, and other libraries take them as they are."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import duckdb
import exitscope
import pandas
import polars
import pyarrow
import pytest
from conftest import CORPUS, SVM, printed

XEN = CORPUS / "xen/hvm1_dm_sched_hvm.xentrace.gz"


def rows_of_csv(*arguments: str | Path) -> list[dict[str, str]]:
    """What the command prints as CSV."""
    return list(csv.DictReader(io.StringIO(printed(*arguments, "--format", "csv"))))


def text(value: Any) -> str:
    """A value as CSV has it."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def same_rows(table: exitscope.Table, rows: list[dict[str, str]]) -> None:
    """All of the rows, under the same names in the same order."""
    arrow = pyarrow.table(table)
    assert arrow.column_names == table.column_names == list(rows[0])
    assert arrow.num_rows == len(table) == len(rows)
    for name in arrow.column_names:
        found = arrow[name].to_pylist()
        if pyarrow.types.is_floating(arrow[name].type):
            assert found == [float(row[name]) if row[name] else None for row in rows], name
        else:
            assert [text(value) for value in found] == [row[name] for row in rows], name


@pytest.mark.parametrize("path", [SVM, CORPUS / "arm64/arm.dat.gz", CORPUS / "powerpc/p8_smt4_trace.dat.gz"])
def test_exits_are_those_of_the_export(path: Path) -> None:
    same_rows(exitscope.read(path).exits(), rows_of_csv("export", path))


def test_exits_of_some_columns_in_their_order() -> None:
    table = exitscope.read(SVM, reason="io", longer_than="1ms").exits(["reason", "at_ns", "user_space_ns"])
    rows = rows_of_csv("export", SVM, "--reason", "io", "--longer-than", "1ms")
    same_rows(table, [{name: row[name] for name in ("reason", "at_ns", "user_space_ns")} for row in rows])
    with pytest.raises(exitscope.Error, match="no column \"reasons\".*at_ns"):
        exitscope.read(SVM).exits(["reasons"])


@pytest.mark.parametrize("by", ["reason", "vm,vcpu", "subject", "port,reason", "handler,cpu", "time", "rip"])
def test_facts_are_the_rows_of_the_report(by: str) -> None:
    same_rows(exitscope.read(SVM).facts(by=by.split(",")), rows_of_csv("report", SVM, "--by", by))


def test_vcpus_are_those_of_the_report() -> None:
    for path, flags in [(SVM, {}), (XEN, {"tsc_hz": 2596120000})]:
        arguments = [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]
        report = json.loads(printed("report", path, "--format", "json", *arguments))
        arrow = pyarrow.table(exitscope.read(path, **flags).vcpus())
        names = set().union(*report["vcpus"])
        assert names <= set(arrow.column_names)
        assert arrow.to_pylist() == [{name: row.get(name) for name in arrow.column_names} for row in report["vcpus"]]


def test_halts_are_those_of_the_report() -> None:
    path = CORPUS / "x86-svm/t4-none.dat.gz"
    report = json.loads(printed("report", path, "--format", "json"))
    halts = pyarrow.table(exitscope.read(path).halts()).to_pylist()
    assert len(halts) == len(report["halt"]["vcpus"]) > 0
    for row, of_report in zip(halts, report["halt"]["vcpus"]):
        for name in ("vm", "vcpu", "halts", "blocked", "poll_success_ns", "failed_polls", "grown"):
            assert row[name] == of_report.get(name), name
        for name, key in (("gap", "gaps"), ("latency", "latency")):
            assert row[f"{name}_sum_ns"] == of_report[key]["sum_ns"]
            assert sum(row[f"{name}_bucket_count"]) == of_report[key]["count"]


def test_a_selection_without_exits_is_an_empty_table_with_all_columns() -> None:
    recording = exitscope.read(SVM, where="cost > 100s")
    for table, other in [(recording.exits(), exitscope.read(SVM).exits()), (recording.facts(), exitscope.read(SVM).facts())]:
        assert len(table) == 0 and table.column_names == other.column_names
        assert pyarrow.table(table).schema.names == other.column_names


def test_libraries_see_the_same_rows_without_a_copy() -> None:
    exits = exitscope.read(SVM).exits()
    arrow, again = pyarrow.table(exits), pyarrow.table(exits)
    places = [column.chunk(0).buffers()[1].address for column in (arrow["kernel_ns"], again["kernel_ns"])]
    assert places[0] == places[1]
    total = sum(value or 0 for value in arrow["kernel_ns"].to_pylist())
    assert polars.DataFrame(exits)["kernel_ns"].sum() == total
    assert pandas.DataFrame.from_arrow(exits)["kernel_ns"].sum() == total
    assert duckdb.sql("select sum(kernel_ns) from exits").fetchall() == [(total,)]
    assert arrow.schema.field("kernel_ns").metadata[b"unit"] == b"ns"
    assert pyarrow.schema(exits) == arrow.schema


def test_several_files_are_one_recording(days: dict[str, Path]) -> None:
    names = ["before", "yesterday"]
    rows = rows_of_csv("report", *(days[name] for name in names))
    same_rows(exitscope.read(*(days[name] for name in names)).facts(), rows)


def test_what_was_lost_is_a_warning(tmp_path: Path) -> None:
    cut = tmp_path / "cut.txt"
    whole = (CORPUS / "found/min-tail-guest-beyond-span.txt").read_text()
    cut.write_text(whole + "CPU:0 [LOST 7 EVENTS]\n" + whole.splitlines()[-1] + "\n")
    report = json.loads(printed("report", cut, "--format", "json"))
    severe = [line for line in report["coverage"]["lines"] if line["severity"] in ("loss", "error")]
    assert severe
    for table in ("exits", "facts", "vcpus", "halts"):
        with pytest.warns(exitscope.CoverageWarning) as warned:
            getattr(exitscope.read(cut), table)()
        assert len(warned) == len(severe), table
