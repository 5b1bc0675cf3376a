#!/bin/sh
# Simulates settings of the bundled scenarios with this machine's KVM, tries them on real guests, and writes lab.jsonl anew. Needs /dev/kvm;
# takes five minutes on a quiet machine.
#
#     crates/validation/tried/lab.sh
set -eu
cd "$(dirname "$0")/../../.."
exitscope=target/debug/exitscope
file=crates/validation/tried/lab.jsonl
predict() { "$exitscope" sim "scenarios/$1.toml" $2 --predictions "$file" >/dev/null; }
rm -f "$file"
for value in 0 20us 50us 1ms; do
    predict ping-pong "--set guest_halt_poll_ns=$value"
    predict wake-ups "--set guest_halt_poll_ns=$value"
done
for value in 1 8; do predict wake-ups "--set guest_halt_poll_grow=$value"; done
predict ping-pong "--set vm.pair.cpuidle_haltpoll=false"
predict wake-ups "--set vm.pair.cpuidle_haltpoll=false"
for scenario in port-loop random-io; do
    for setting in device_model=scheduled device_model=inline quick_path=Y quick_path=N vm.guest.access=doorbell; do
        predict $scenario "--set $setting" || echo "$scenario: not $setting"
    done
done
predict port-loop "--set delay=1us"
predict port-loop "--set delay=10us"
for scenario in ping-pong wake-ups port-loop random-io; do
    "$exitscope" lab run "scenarios/$scenario.toml" --duration 500ms --against "$file"
done
