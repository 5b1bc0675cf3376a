"""Which VM, which cause, and what has changed since yesterday: since_yesterday.py YESTERDAY TODAY"""

import sys

import exitscope
import polars

yesterday, today = sys.argv[1:]
recording = exitscope.read(today)

vms = polars.DataFrame(recording.facts(by=["vm"]))
print(vms.select("vm", "vm_name", "count", "cost_ns", "share_of_cost"))

for cause in recording.report()["causes"][:3]:
    subject = cause["subject"]["text"] if cause["subject"] else "-"
    print(f"{cause['kind']:8} {cause['reason'] or '-':12} {subject:28} {cause['share_of_time']:.1%} of vCPU time; {cause['brief']}")

comparison = exitscope.diff(yesterday, today)
print(comparison["verdict"]["text"])
for doubt in comparison["verdict"]["doubts"]:
    print(f"  {doubt}")
