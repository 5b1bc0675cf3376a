#!/bin/sh
# Tries values of halt_poll_ns on guests of the rig, each predicted from a recording directly before, and writes rig.jsonl anew: the
# history of these trials. Needs what `cargo xtask rig` needs; takes eight minutes.
#
#     crates/validation/tried/rig.sh
set -eu
here=$(dirname "$0")
inside='
knob=/sys/module/kvm/parameters/halt_poll_ns
for program in ping-pong io; do
    for gap in 20us 200us; do
        for now in 0 200000; do
            echo $now > $knob
            mkdir guests
            exitscope lab guests $program --gap $gap --root guests > guests.txt 2>&1 &
            until grep -qs "[1-9]" guests/throughput; do sleep 0.2; done
            [ $now = 0 ] && values=1ms,5ms || values=0,5ms
            exitscope try halt_poll_ns=$values --vm $! --metric-file guests/throughput --turn 200ms --settle 50ms --for 40s --yes \
                --state applied.json || echo "code $?"
            kill $!
            wait
            rm -r guests
        done
    done
done'
cargo xtask rig x86-svm --limit 1800 -- "$inside"
cp "$here"/../../../target/rig/results/*/trials.jsonl "$here"/rig.jsonl
