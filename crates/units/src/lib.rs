//! Newtypes for moments, spans of time and the numbers of things. Imports nothing and knows nothing.
//!
//! ```
//! use exitscope_units::{Moment, Nanos};
//! let exit = Moment::from_nanos(1_000);
//! let entry = Moment::from_nanos(3_500);
//! assert_eq!(entry.since(exit), Some(Nanos(2_500)));
//! assert_eq!(exit.since(entry), None); // a clock that went back is seen, not wrapped
//! ```
#![no_std]

use core::fmt;

/// A point in time on a trace's one clock, in nanoseconds since that clock's zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The latest moment that can be written down.
    pub const MAX: Moment = Moment(u64::MAX);

    /// A moment `nanos` nanoseconds after the clock's zero.
    pub const fn from_nanos(nanos: u64) -> Moment {
        Moment(nanos)
    }

    /// A moment as traces print it: seconds with decimals, `12.345678`. `None` if it is not that or does not fit.
    pub fn parse(text: &str) -> Option<Moment> {
        parse_decimal(text.trim(), 1_000_000_000).map(Moment)
    }

    /// Nanoseconds since the clock's zero.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`, or `None` if `earlier` is the later one.
    pub const fn since(self, earlier: Moment) -> Option<Nanos> {
        match self.0.checked_sub(earlier.0) {
            Some(nanos) => Some(Nanos(nanos)),
            None => None,
        }
    }
}

impl fmt::Display for Moment {
    /// Seconds with nine digits, as `trace-cmd report -t` writes them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// No time.
    pub const ZERO: Nanos = Nanos(0);

    /// A length as people write it: `831ns`, `12.5us` or `12.5µs`, `3ms`, `1.5s`. `None` without a unit, for a negative length and
    /// for one that does not fit.
    pub fn parse(text: &str) -> Option<Nanos> {
        let text = text.trim();
        let (number, unit) = [("ns", 1), ("us", 1_000), ("µs", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)]
            .into_iter()
            .find_map(|(name, unit)| Some((text.strip_suffix(name)?.trim_end(), unit)))?;
        parse_decimal(number, unit).map(Nanos)
    }

    /// The same, also of minutes and hours: `10m`, `1.5h`.
    pub fn parse_long(text: &str) -> Option<Nanos> {
        let of = |name, unit| parse_decimal(text.trim().strip_suffix(name)?.trim_end(), unit).map(Nanos);
        of("m", 60_000_000_000).or_else(|| of("h", 3_600_000_000_000)).or_else(|| Nanos::parse(text))
    }

    /// The sum, or the largest length if it does not fit.
    pub const fn plus(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Nanos {
    /// Three significant digits, rounded, and the unit that suits: `831ns`, `12.4us`, `3.05ms`, `1.27s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] = [(1, "ns"), (1_000, "us"), (1_000_000, "ms"), (1_000_000_000, "s")];
        for (unit, name) in UNITS {
            let rounded = |parts: u128| (u128::from(self.0) * parts + u128::from(unit) / 2) / u128::from(unit);
            let (hundredths, tenths, whole) = (rounded(100), rounded(10), rounded(1));
            match () {
                _ if unit == 1 && whole < 1_000 => return write!(f, "{whole}{name}"),
                _ if unit == 1 => {}
                _ if hundredths < 1_000 => return write!(f, "{}.{:02}{name}", hundredths / 100, hundredths % 100),
                _ if tenths < 1_000 => return write!(f, "{}.{}{name}", tenths / 10, tenths % 10),
                _ if whole < 1_000 || name == "s" => return write!(f, "{whole}{name}"),
                _ => {}
            }
        }
        Ok(())
    }
}

/// A number as people read it.
#[derive(Clone, Copy, Debug)]
pub struct Thousands(pub u64);

impl fmt::Display for Thousands {
    /// `1,234,567`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = self.0.checked_ilog10().unwrap_or(0) / 3;
        write!(f, "{}", self.0 / 1_000_u64.pow(groups))?;
        (0..groups).rev().try_for_each(|at| write!(f, ",{:03}", self.0 / 1_000_u64.pow(at) % 1_000))
    }
}

/// A length of time in picoseconds: the grain of simulated time, fine enough for single cycles. The longest is 213 days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Picos(pub u64);

impl Picos {
    /// No time.
    pub const ZERO: Picos = Picos(0);

    /// `nanos` nanoseconds, or the longest length if it does not fit.
    pub const fn from_nanos(nanos: u64) -> Picos {
        Picos(nanos.saturating_mul(1_000))
    }

    /// `cycles` of a clock of `hz`; `None` if the clock stands still or the result does not fit.
    pub fn from_cycles(cycles: u64, hz: u64) -> Option<Picos> {
        let picos = (u128::from(cycles) * 1_000_000_000_000).checked_div(u128::from(hz))?;
        u64::try_from(picos).ok().map(Picos)
    }

    /// In nanoseconds, what is less than one cut.
    pub const fn as_nanos(self) -> u64 {
        self.0 / 1_000
    }
}

/// A decimal number times `unit`, digits beyond the unit's precision cut.
fn parse_decimal(text: &str, unit: u64) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || (whole.is_empty() && part.is_empty()) {
        return None;
    }
    let mut value = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()?.checked_mul(unit)? };
    let mut weight = unit;
    for digit in part.bytes() {
        weight /= 10;
        value = value.checked_add(u64::from(digit - b'0') * weight)?;
    }
    Some(value)
}

/// A thread of the host, as the kernel numbers it (`pid` in tracepoints).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tid(pub u32);

/// A virtual machine: the process (thread group) that runs it, or Xen's domain. Zero means that the trace does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VmId(pub u32);

impl VmId {
    /// The trace does not say whose VM it is.
    pub const UNKNOWN: VmId = VmId(0);

    /// Xen's domain 0.
    pub const DOMAIN_0: VmId = VmId(u32::MAX);

    /// Xen's domain whose vCPUs are the physical CPUs' idling.
    pub const IDLE_DOMAIN: VmId = VmId(0x7fff);

    /// Xen's domain of this number.
    pub const fn domain(number: u32) -> VmId {
        if number == 0 { VmId::DOMAIN_0 } else { VmId(number) }
    }

    /// The number of the process or domain, if the trace says.
    pub const fn number(self) -> Option<u32> {
        match self {
            VmId::UNKNOWN => None,
            VmId::DOMAIN_0 => Some(0),
            VmId(number) => Some(number),
        }
    }
}

/// A virtual CPU's number within its VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VcpuId(pub u32);

impl VcpuId {
    /// The trace does not say which virtual CPU it is.
    pub const UNKNOWN: VcpuId = VcpuId(u32::MAX);

    /// In place of a number: whichever runs on a physical CPU, of which the trace says no more.
    const ON: u32 = 1 << 31;

    /// Whichever virtual CPU runs on `cpu`: the trace says no more.
    pub const fn on(cpu: PcpuId) -> VcpuId {
        VcpuId(VcpuId::ON | cpu.0)
    }

    /// The virtual CPU's number, if the trace says.
    pub const fn number(self) -> Option<u32> {
        if self.0 & VcpuId::ON == 0 { Some(self.0) } else { None }
    }

    /// The physical CPU by which alone the virtual CPU is known, if that is so.
    pub const fn known_by(self) -> Option<PcpuId> {
        match self {
            VcpuId::UNKNOWN => None,
            VcpuId(on) if on & VcpuId::ON != 0 => Some(PcpuId(on & !VcpuId::ON)),
            _ => None,
        }
    }
}

/// A physical CPU of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PcpuId(pub u32);

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn lengths_and_moments_are_read_as_they_are_written() {
        let lengths = [
            ("831ns", 831),
            ("12.5us", 12_500),
            (".5ms", 500_000),
            ("2 s", 2_000_000_000),
            ("1.0004us", 1_000),
            ("50µs", 50_000),
        ];
        for (text, nanos) in lengths {
            assert_eq!(Nanos::parse(text), Some(Nanos(nanos)), "{text}");
        }
        for text in ["", "5", "-5us", "us", ".us", "1e3us", "99999999999999s", "1.2.3s", "5µ"] {
            assert_eq!(Nanos::parse(text), None, "{text}");
        }
        let shown = [
            (0, "0ns"),
            (831, "831ns"),
            (1_000, "1.00us"),
            (9_994, "9.99us"),
            (9_996, "10.0us"),
            (99_950, "100us"),
            (999_499, "999us"),
            (999_500, "1.00ms"),
            (1_234_567_890_123, "1235s"),
        ];
        for (nanos, text) in shown {
            assert_eq!(std::format!("{}", Nanos(nanos)), text);
        }
        assert_eq!(Moment::parse("30.163347420"), Some(Moment::from_nanos(30_163_347_420)));
        assert_eq!(Moment::parse("30"), Some(Moment::from_nanos(30_000_000_000)));
        assert_eq!(Moment::parse("30s"), None);
        for (text, nanos) in [
            ("10m", Some(600_000_000_000)),
            (" 1.5 h", Some(5_400_000_000_000)),
            ("3ms", Some(3_000_000)),
            ("12", None),
            ("m", None),
            ("-1m", None),
            ("6000000h", None),
        ] {
            assert_eq!(Nanos::parse_long(text), nanos.map(Nanos), "{text}");
        }
    }

    #[test]
    fn numbers_tell_the_unknown_from_domain_0_and_from_what_only_a_cpu_names() {
        assert_eq!([VmId::UNKNOWN, VmId::domain(0), VmId::domain(6)].map(VmId::number), [None, Some(0), Some(6)]);
        let (named, unnamed) = (VcpuId(3), VcpuId::on(PcpuId(3)));
        assert_eq!([named, unnamed, VcpuId::UNKNOWN].map(VcpuId::number), [Some(3), None, None]);
        assert_eq!([named, unnamed, VcpuId::UNKNOWN].map(VcpuId::known_by), [None, Some(PcpuId(3)), None]);
    }

    #[test]
    fn numbers_are_divided_by_thousands() {
        for (number, text) in [
            (0, "0"),
            (7, "7"),
            (999, "999"),
            (1_000, "1,000"),
            (14_042, "14,042"),
            (1_000_007, "1,000,007"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(std::format!("{}", Thousands(number)), text);
        }
    }
}
