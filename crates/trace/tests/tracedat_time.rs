//! The time between two records of a ring buffer, to its top bit, in either byte order.
//!
//! Source: include/linux/ring_buffer.h, struct ring_buffer_event: `u32 type_len:5, time_delta:27`. A compiler for
//! big-endian machines puts the first field at the top, one for little-endian machines at the bottom.

mod common;

use common::said;
use common::trace_dat::{HOST, Machine, Trace};

/// The largest time that fits, and its top bit alone.
const ALL: u32 = (1 << 27) - 1;
const TOP: u32 = 1 << 26;

const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

fn machines() -> impl Iterator<Item = Machine> {
    [(false, 8), (false, 4), (true, 8), (true, 4)].into_iter().map(|(big, long)| Machine { big, long, ..HOST })
}

/// When the records of one page, which begins at `ticks`, happened.
fn times(machine: Machine, ticks: u64, records: &[Vec<u8>]) -> Vec<u64> {
    let cpus = [machine.page(ticks, 0, records, &[])];
    let trace = Trace { machine, buffers: &[("", "local", &cpus)], options: &[], compressor: "none" };
    let said = said(&trace.v7()).unwrap();
    assert_eq!(said.lines(), []);
    said.told().iter().map(|event| event.0).collect()
}

#[test]
fn every_bit_of_the_time_between_records_counts() {
    for machine in machines() {
        for bit in 0..27 {
            let delta = 1 << bit;
            let records = [machine.entry(0, 42, 3), machine.entry(delta, 42, 3)];
            assert_eq!(
                times(machine, 1_000, &records),
                [1_000, 1_000 + u64::from(delta)],
                "bit {bit}, big: {}",
                machine.big
            );
        }
        let records = [0, TOP, ALL, 1].map(|delta| machine.entry(delta, 42, 3));
        let sums = [0, TOP, TOP + ALL, TOP + ALL + 1].map(|sum| 1_000 + u64::from(sum));
        assert_eq!(times(machine, 1_000, &records), sums, "big: {}", machine.big);
    }
}

/// A record too long for its type says its length in the next word; longer times are words of their own, whose low 27 bits
/// are those of the first word.
#[test]
fn the_time_has_its_top_bit_in_records_of_every_kind() {
    for machine in machines() {
        let long = |delta| {
            let payload = machine.payload(7, 42, 3);
            [machine.head(0, delta), machine.u32(payload.len() as u32 + 4), payload].concat()
        };
        let extend = |kind, delta, high| [machine.head(kind, delta), machine.u32(high)].concat();
        let end = |ticks: u64| ticks + u64::from(TOP);
        for (what, record, at) in [
            ("a length of its own", vec![long(TOP)], end(1_000)),
            ("more time", vec![extend(TIME_EXTEND, TOP, 3), machine.entry(0, 42, 3)], end(1_000 + (3 << 27))),
            ("a moment", vec![extend(TIME_STAMP, TOP, 5), machine.entry(0, 42, 3)], end(5 << 27)),
        ] {
            let records = [vec![machine.entry(0, 42, 3)], record].concat();
            assert_eq!(times(machine, 1_000, &records), [1_000, at], "{what}, big: {}", machine.big);
        }
    }
}
