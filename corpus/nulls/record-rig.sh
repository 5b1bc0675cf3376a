#!/bin/sh
# Makes the recordings of the rig's guest anew: 40 on a host that does nothing else, and 40 beside programs of which there are now more,
# now fewer. Needs what `cargo xtask rig` needs, and zstd; takes a few minutes.
#
#     corpus/nulls/record-rig.sh
set -eu
here=$(dirname "$0")
inside='
record() {
    exitscope record --repeat 40 -m 16M -o tiny-guest-$1.data -- tiny-guest --repeat 15 >/dev/null || exit 1
}
record quiet
load() {
    while :; do
        for programs in 0 1 2 3 2 1; do
            for _ in $(seq $programs); do timeout 3 sh -c "while :; do :; done" & done
            sleep 3
        done
    done
}
load &
loader=$!
record loaded
kill $loader'
cargo xtask rig x86-svm --limit 3600 -- "$inside" >/dev/null
for recording in "$here"/../../target/rig/results/*/tiny-guest-*.data; do
    name=$(basename "$recording" .data)
    number=$(printf %02d "${name##*.}")
    zstd -19 --quiet --force --rm "$recording" -o "$here/${name%.*}-$number.data.zst"
done
