"""Which VM, which cause, and what has changed since yesterday: answered of three recordings, by three libraries."""

from __future__ import annotations

from pathlib import Path

import duckdb
import exitscope
import pandas
import polars


def test_which_vm_which_cause_and_what_changed_since_yesterday(days: dict[str, Path]) -> None:
    recordings = {day: exitscope.read(path) for day, path in days.items()}

    # Which VM? The one whose exits cost the most.
    cost = {day: polars.DataFrame(of.facts(by=["vm"])).sort("cost_ns", descending=True) for day, of in recordings.items()}
    assert {day: of["vm_name"][0] for day, of in cost.items()} == {"before": "web", "yesterday": "web", "today": "db"}

    # Which cause? Its costliest reason and subject.
    of_db = exitscope.read(days["today"], vm="db").facts(by=["reason", "subject"])
    causes = duckdb.sql("select reason, subject_kind, subject_key, direction from of_db order by cost_ns desc")
    assert causes.fetchall()[0] == ("io", "port", 0x3F8, "out")
    worst = recordings["today"].report()["causes"][0]
    assert (worst["reason"], worst["subject"]["key"]) == ("io", 0x3F8)

    # What has changed since yesterday? Only the rate of db's exits; and from the day before until yesterday nothing.
    frames = [pandas.DataFrame.from_arrow(of.facts(by=["vm"])).assign(day=day) for day, of in recordings.items()]
    rates = pandas.concat(frames).pivot(index="vm_name", columns="day", values="rate_per_s")
    change = rates["today"] / rates["yesterday"]
    assert change["db"] > 5 and 0.8 < change["web"] < 1.25
    compared = exitscope.diff(recordings["yesterday"], recordings["today"])
    assert compared["verdict"]["state"] == "recordings_differ"
    rows = [row for row in compared["rows"] if row["reason"] == "io"]
    cost_of_io = next(change for change in rows[0]["changes"] if change["measure"] == "cost_ns_per_s")
    assert cost_of_io["low"] is not None and cost_of_io["low"] > 0
    same = exitscope.diff(recordings["before"], recordings["yesterday"])
    assert same["verdict"]["state"] == "no_clear_difference"
