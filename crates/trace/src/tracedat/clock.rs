//! From a ring buffer's time stamps to nanoseconds, in the order in which trace-cmd does it.
//!
//! ```text
//! ticks ─► guest to host (TIME_SHIFT) ─► ticks to ns (rate given, or TSC2NSEC) ─► + offset (DATE, OFFSET) ─► Moment
//! ```

use exitscope_units::Moment;

/// One measurement of a guest's clock against its host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// When, on the guest's clock.
    pub time: u64,
    /// What to add.
    pub offset: i64,
    /// Factor, before the shift by `fraction`.
    pub scaling: u64,
    /// Bits of `scaling` behind the binary point.
    pub fraction: u64,
}

/// How to get nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TickRate {
    /// The ring buffer has nanoseconds.
    #[default]
    Nanos,
    /// `(ticks * mult) >> shift`, from the TSC2NSEC option.
    Scaled { mult: u32, shift: u32 },
    /// Ticks per second.
    Hertz(u64),
}

/// What the trace says of its time stamps.
#[derive(Clone, Debug, Default)]
pub(super) struct TraceClock {
    /// How to get nanoseconds.
    pub rate: TickRate,
    /// Nanoseconds to add at the end.
    pub offset: i64,
    /// Samples per CPU, in ascending order of time; empty in a host's trace.
    pub sync: Vec<Vec<Sample>>,
    /// Whether to interpolate between samples.
    pub interpolate: bool,
}

impl TraceClock {
    /// The moment that `ticks` of `cpu` means.
    #[inline]
    pub fn moment(&self, ticks: u64, cpu: u32) -> Moment {
        if self.rate == TickRate::Nanos && self.sync.is_empty() {
            return Moment::from_nanos(ticks.saturating_add_signed(self.offset));
        }
        self.computed(ticks, cpu)
    }

    fn computed(&self, ticks: u64, cpu: u32) -> Moment {
        let ticks = self.sync.get(cpu as usize).map_or(ticks, |samples| self.on_host(ticks, samples));
        let nanos = match self.rate {
            TickRate::Nanos => u128::from(ticks),
            TickRate::Scaled { mult, shift } => (u128::from(ticks) * u128::from(mult)).checked_shr(shift).unwrap_or(0),
            TickRate::Hertz(hertz) => u128::from(ticks) * 1_000_000_000 / u128::from(hertz.max(1)),
        };
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        Moment::from_nanos(nanos.saturating_add_signed(self.offset))
    }

    /// `timestamp_host_sync` of trace-cmd's `trace-input.c`.
    fn on_host(&self, ticks: u64, samples: &[Sample]) -> u64 {
        let (first, second) = match samples {
            [] => return ticks,
            [only] => return ticks.saturating_add_signed(only.offset),
            _ => {
                let before = samples.partition_point(|sample| sample.time <= ticks);
                let at = before.saturating_sub(1).min(samples.len() - 2);
                (samples[at], samples[at + 1])
            }
        };
        let mut offset = i128::from(first.offset);
        let span = i128::from(second.time) - i128::from(first.time);
        if self.interpolate && span > 0 {
            let since = i128::from(ticks) - i128::from(first.time);
            let change = i128::from(second.offset) - i128::from(first.offset);
            offset += (since.saturating_mul(change).saturating_add(span / 2)) / span;
        }
        let scaled = (u128::from(ticks) * u128::from(first.scaling))
            .checked_shr(u32::try_from(first.fraction).unwrap_or(u32::MAX))
            .unwrap_or(0);
        let sum = i128::try_from(scaled).unwrap_or(i128::MAX).saturating_add(offset);
        u64::try_from(sum.clamp(0, i128::from(u64::MAX))).unwrap_or(u64::MAX)
    }
}

/// Whether the ftrace clock called `name` counts nanoseconds. `uptime` counts 1/100 s; an empty name is an old
/// recorder that did not say, and its default was nanoseconds.
pub(super) fn counts_nanos(name: &str) -> bool {
    matches!(name, "" | "local" | "global" | "perf" | "mono" | "mono_raw" | "boot" | "tai" | "tsc2nsec")
}

/// The clock in brackets in the text of ftrace's `trace_clock` file.
pub(super) fn selected(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|pair| pair.0.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(time: u64, offset: i64) -> Sample {
        Sample { time, offset, scaling: 1, fraction: 0 }
    }

    #[test]
    fn nanoseconds_are_only_shifted() {
        let clock = TraceClock { offset: -5, ..TraceClock::default() };
        assert_eq!(clock.moment(1_000, 0), Moment::from_nanos(995));
        assert_eq!(clock.moment(3, 0), Moment::from_nanos(0));
    }

    #[test]
    fn ticks_are_scaled_by_tsc2nsec_or_by_the_given_rate() {
        // 2 GHz: half a nanosecond per tick.
        let clock = TraceClock { rate: TickRate::Scaled { mult: 1 << 31, shift: 32 }, ..TraceClock::default() };
        assert_eq!(clock.moment(1_000_001, 0), Moment::from_nanos(500_000));
        let clock = TraceClock { rate: TickRate::Hertz(512_000_000), offset: 7, ..TraceClock::default() };
        assert_eq!(clock.moment(512_000_000 * 3, 0), Moment::from_nanos(3_000_000_007));
        // No shift and no rate make the arithmetic fail.
        let clock = TraceClock { rate: TickRate::Scaled { mult: u32::MAX, shift: u32::MAX }, ..TraceClock::default() };
        assert_eq!(clock.moment(u64::MAX, 0), Moment::from_nanos(0));
        let clock = TraceClock { rate: TickRate::Hertz(0), ..TraceClock::default() };
        assert_eq!(clock.moment(u64::MAX, 0), Moment::MAX);
    }

    #[test]
    fn a_guest_is_put_on_its_hosts_clock() {
        let sync = vec![vec![sample(100, 10)], vec![sample(100, 10), sample(200, 20), sample(400, 100)]];
        let mut clock = TraceClock { sync, ..TraceClock::default() };
        let nanos = |clock: &TraceClock, ticks, cpu| clock.moment(ticks, cpu).as_nanos();
        assert_eq!([50, 150].map(|ticks| nanos(&clock, ticks, 0)), [60, 160]);
        // Steps: the earlier sample of the pair around the time; the last pair's beyond the end.
        assert_eq!([50, 150, 200, 399, 900].map(|ticks| nanos(&clock, ticks, 1)), [60, 160, 220, 419, 920]);
        clock.interpolate = true;
        assert_eq!([50, 150, 200, 300, 500].map(|ticks| nanos(&clock, ticks, 1)), [56, 165, 220, 360, 640]);
        // A CPU without samples stays as it is.
        assert_eq!(nanos(&clock, 50, 2), 50);
    }

    #[test]
    fn absurd_samples_do_not_overflow() {
        let wild = |time, offset| Sample { time, offset, scaling: u64::MAX, fraction: 200 };
        let clock = TraceClock {
            sync: vec![vec![wild(0, i64::MIN), wild(1, i64::MAX)]],
            interpolate: true,
            rate: TickRate::Scaled { mult: u32::MAX, shift: 0 },
            offset: i64::MAX,
        };
        let moments = [0, 1, u64::MAX].map(|ticks| clock.moment(ticks, 0));
        assert_eq!(
            moments,
            [Moment::from_nanos(i64::MAX as u64), Moment::MAX, Moment::MAX],
            "it ends at the last moment"
        );
    }

    #[test]
    fn the_selected_clock_is_the_one_in_brackets() {
        assert_eq!(selected("local [global] counter x86-tsc\n"), Some("global"));
        assert_eq!(selected("local global"), None);
        assert!(counts_nanos("mono_raw") && !counts_nanos("x86-tsc") && !counts_nanos("uptime"));
    }
}
