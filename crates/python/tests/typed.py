"""What mypy is to know of reports, tables and comparisons; not run."""

from __future__ import annotations

from typing import Optional

import exitscope
from exitscope.schemas import AdviceReport, Comparison, Report
from typing_extensions import assert_type

recording = exitscope.read("perf.data", vm=["web01", 1234], longer_than="200us")
assert_type(recording.exits(["at_ns"]), exitscope.Table)
report: Report = recording.report(by="vm")
assert_type(report["total"]["cost_ns"], Optional[int])
advice: AdviceReport = recording.advise()
assert_type(advice["advice"][0]["change"], str)
comparison: Comparison = exitscope.diff("before.data", [recording])
assert_type(comparison["confidence_percent"], float)
report["no_such_key"]  # type: ignore[typeddict-item]
