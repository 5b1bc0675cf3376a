#!/bin/sh
# Makes the recordings beside this script anew: 40 of each guest with its own CPUs, and 40 beside programs of which there are now
# more, now fewer. Needs KVM, root, zstd, and a machine with two CPUs at least; takes a few minutes.
#
#     corpus/nulls/record.sh target/debug/exitscope
set -eu
exitscope=$1
here=$(dirname "$0")
each=40

# GUEST LENGTH LOAD COMMAND…: COMMAND runs the lab.
record() {
    guest=$1 length=$2 load=$3
    shift 3
    for number in $(seq -w 1 "$each"); do
        to=$here/$guest-$load-$number.data
        # A guest that spins at real-time priority would take a whole machine that had no throttling.
        timeout -s KILL 20 "$@" "$exitscope" lab run "$here/../../scenarios/$guest.toml" --duration "$length" \
            --format json --trace "$to" >/dev/null 2>&1
        zstd -19 --quiet --force --rm "$to"
    done
    echo "$each recordings of $guest, $load"
}

# At real-time priority nothing but interrupts takes a CPU from a guest.
record port-loop 100ms quiet chrt -f 50
record redis 100ms quiet chrt -f 50

load() {
    while :; do
        for programs in 0 1 2 3 4 3 2 1; do
            for _ in $(seq "$programs"); do timeout 3 sh -c 'while :; do :; done' & done
            sleep 3
        done
    done
}
load &
loader=$!
trap 'kill "$loader"' EXIT
record port-loop 100ms loaded env
record redis 100ms loaded env
