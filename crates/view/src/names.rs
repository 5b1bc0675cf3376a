//! How things are called on screen and in files.

use exitscope_model::SubjectKind;
use exitscope_model::codes::system_register_parts;
use exitscope_units::{Moment, Nanos, Thousands};

/// `0x3f8 out COM1`, `0xd XSAVE`, `MSR_IA32_TSC_DEADLINE write`, `0x100000006 write, not mapped`, … of what is called `name`.
pub fn detail(name: Option<&str>, of: SubjectKind, key: u64, write: bool) -> String {
    let by_number = is_by_number(of, name);
    let first = match name {
        _ if by_number => format!("{key:#x}"),
        Some(name) => name.to_string(),
        // As assemblers write those that they have no name for.
        None => {
            let [op0, op1, crn, crm, op2] = system_register_parts(key);
            format!("S{op0}_{op1}_C{crn}_C{crm}_{op2}")
        }
    };
    let parts = [Some(first.as_str()), of.direction(write), name.filter(|_| by_number)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Whether it is called by its number: people know those of some kinds, which stand before their names.
fn is_by_number(of: SubjectKind, name: Option<&str>) -> bool {
    match of {
        SubjectKind::Port | SubjectKind::Mmio | SubjectKind::Cpuid => true,
        SubjectKind::PageFault | SubjectKind::EptViolation | SubjectKind::HostVector => true,
        SubjectKind::HostIrq | SubjectKind::EoiVector | SubjectKind::IncompleteIpi => true,
        SubjectKind::SystemRegister => false,
        _ => name.is_none(),
    }
}

/// What stands for the subject of exits that have none.
pub const NO_SUBJECT: &str = "no subject";

/// The same beside those of other kinds: `port 0x3f8 out COM1`, `MSR 0x7777 read`, `MSR_IA32_TSC_DEADLINE write`.
pub fn detail_of_kind(name: Option<&str>, of: SubjectKind, key: u64, write: bool) -> String {
    let label = detail(name, of, key, write);
    match of {
        _ if !is_by_number(of, name) => label,
        SubjectKind::Mmio => format!("MMIO {label}"),
        SubjectKind::Msr => format!("MSR {label}"),
        SubjectKind::Cpuid => format!("CPUID {label}"),
        SubjectKind::Apic => format!("APIC {label}"),
        _ => format!("{} {label}", of.name().replace('_', " ")),
    }
}

/// `1,234,567`.
pub fn thousands(number: u64) -> String {
    Thousands(number).to_string()
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => one.to_string(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

/// A noun for so many: `host`, `hosts`.
pub fn plural(count: u64, what: &str) -> String {
    if count == 1 { what.to_string() } else { format!("{what}s") }
}

/// A part of one: `12.3%`; `<0.1%` for what is not nothing.
pub fn share(share: f64) -> String {
    match (share * 1000.0).round() {
        0.0 if share > 0.0 => "<0.1%".to_string(),
        0.0 => "0%".to_string(),
        tenths => format!("{:.1}%", tenths / 10.0),
    }
}

/// Time in each second, as how many do so all the time: `0.048`, `1.22`, `12.5`.
pub fn all_the_time(per_s: Nanos) -> String {
    match per_s.0 as f64 / 1e9 {
        0.0 => "0".to_string(),
        small if small < 0.001 => "<0.001".to_string(),
        small if small < 0.1 => format!("{small:.3}"),
        some if some < 10.0 => format!("{some:.2}"),
        many => format!("{many:.1}"),
    }
}

/// How many in a second: `1,234`; `<1` for what is not nothing.
pub fn rate(per_s: f64) -> String {
    if per_s > 0.0 && per_s < 0.5 { "<1".to_string() } else { thousands(per_s.round() as u64) }
}

/// A moment without the zeros at its end, in seconds: `30.5`.
pub fn trimmed(at: Moment) -> String {
    at.to_string().trim_end_matches('0').trim_end_matches('.').to_string()
}

/// The beginning of a bucket of time, with the decimals that buckets of this width need.
pub fn moment(at: Moment, width: Nanos) -> String {
    let decimals = trimmed(Moment::from_nanos(width.0 % 1_000_000_000)).len().saturating_sub("0.".len());
    let text = at.to_string();
    let cut = text.len() - 9 + decimals;
    text[..cut].trim_end_matches('.').to_string()
}

/// A length with every digit it has: `1.234567ms`.
pub fn exact_length(nanos: u64) -> String {
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    match units.into_iter().find(|unit| nanos >= unit.1) {
        Some((unit, size)) => format!("{}{unit}", nanos as f64 / size as f64),
        None => format!("{nanos}ns"),
    }
}

/// `12.3%`; `<0.1%` for what is not nothing.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_string();
    }
    let tenths = (u128::from(part) * 1_000 + u128::from(whole) / 2) / u128::from(whole);
    match (tenths, part) {
        (0, 0) => "0%".to_string(),
        (0, _) => "<0.1%".to_string(),
        _ => format!("{}.{}%", tenths / 10, tenths % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::codes::{detail_name, system_register};

    #[test]
    fn subjects_have_the_numbers_that_people_know_before_their_names() {
        for (kind, key, write, text) in [
            (SubjectKind::HostVector, 0xfd, false, "0xfd RESCHEDULE"),
            (SubjectKind::HostVector, 0x31, false, "0x31"),
            (SubjectKind::EptViolation, 0x182, false, "0x182 write, not mapped"),
            (SubjectKind::Apic, 0x380, true, "APIC_TMICT write"),
            (SubjectKind::Vmgexit, 0x7c, false, "msr"),
            (SubjectKind::IncompleteIpi, 0xfd, false, "0xfd"),
            (SubjectKind::DebugRegister, 7, true, "DR7 write"),
            (SubjectKind::TaskSwitch, 3, false, "task gate"),
        ] {
            assert_eq!(detail(detail_name(kind, key), kind, key, write), text);
        }
        assert_eq!(detail_of_kind(None, SubjectKind::HostVector, 0x31, false), "host vector 0x31");
        assert_eq!(detail(Some("RESCHEDULE"), SubjectKind::IncompleteIpi, 0xfd, false), "0xfd RESCHEDULE");
        assert_eq!(
            detail(Some("virtio-blk vda"), SubjectKind::Mmio, 0xfebf_b000, true),
            "0xfebfb000 write virtio-blk vda"
        );
    }

    #[test]
    fn moments_and_lengths_have_the_digits_that_mean_something() {
        let at = Moment::from_nanos(30_800_000_000);
        assert_eq!(trimmed(at), "30.8");
        assert_eq!(trimmed(Moment::from_nanos(30_000_000_000)), "30");
        assert_eq!(moment(at, Nanos(200_000_000)), "30.8");
        assert_eq!(moment(at, Nanos(20_000_000)), "30.80");
        assert_eq!(moment(Moment::from_nanos(30_000_000_000), Nanos(10_000_000_000)), "30");
        assert_eq!(moment(Moment::from_nanos(31_500_000_000), Nanos(1_500_000_000)), "31.5");
        assert_eq!(exact_length(1_234_567), "1.234567ms");
        assert_eq!((exact_length(200_000), exact_length(999)), ("200us".to_string(), "999ns".to_string()));
    }

    #[test]
    fn a_system_register_without_a_name_is_called_as_assemblers_do() {
        let named = |register, write| {
            let (kind, key) = (SubjectKind::SystemRegister, system_register(register));
            detail(detail_name(kind, key), kind, key, write)
        };
        assert_eq!(named([3, 0, 12, 11, 5], true), "ICC_SGI1R_EL1 write");
        assert_eq!(named([3, 7, 15, 14, 6], false), "S3_7_C15_C14_6 read");
    }

    #[test]
    fn a_rate_below_one_is_not_nothing() {
        assert_eq!([0.0, 0.1, 0.5, 1234.4].map(rate), ["0", "<1", "1", "1,234"]);
    }
}
