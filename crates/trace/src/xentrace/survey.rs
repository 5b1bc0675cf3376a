//! What the beginning of a log shows of the rest, which no header says: whose exit codes they are, the layout of old
//! Xen, and who runs on each physical CPU before the first record that says so.

use super::decode::{Vcpu, running_before};
use super::record::Record;
use super::windows::Windows;
use crate::source::XenMode;
use crate::{Input, TraceError};
use rustc_hash::FxHashMap;

/// Bytes that are looked at: as a rule, and as long as there was no exit.
const ENOUGH: u64 = 4 << 20;
const AT_MOST: u64 = 64 << 20;

/// Bytes of a window that are looked at.
const OF_A_WINDOW: u64 = 1 << 20;

/// The highest of Intel's exit reasons today is 77, AMD's codes of interrupts and instructions begin at 96.
const FIRST_OF_SVM_ALONE: u32 = 0x60;

/// Of so many exits one may have a code of the other vendor: a damaged record.
const STRAYS: u64 = 64;

/// Exits counted by whose code they have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Codes {
    svm_alone: u64,
    all: u64,
}

/// What the beginning shows.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Exits under the event that was both vendors' until 2024.
    pub codes: Codes,
    /// Whether the first extra word of HVM records is domain and vCPU (Xen 3.3.0).
    pub names_first: bool,
    /// Who runs on each CPU before the first record that says so.
    pub first: FxHashMap<u32, Vcpu>,
}

impl Codes {
    /// Counts an exit.
    pub fn count(&mut self, reason: u32) {
        self.all += 1;
        self.svm_alone += u64::from((FIRST_OF_SVM_ALONE..0x1000).contains(&reason));
    }

    /// Whose codes they are, if there are any.
    pub fn mode(&self) -> Option<XenMode> {
        let svm = self.svm_alone > self.all / STRAYS;
        (self.all > 0).then_some(if svm { XenMode::Svm } else { XenMode::Vmx })
    }
}

/// Looks at the beginning of `input`. Damaged windows are left alone.
pub(super) fn survey(input: &Input) -> Result<Survey, TraceError> {
    let mut survey = Survey::default();
    let (mut at, mut looked) = (0, 0);
    // Of exits with as many words as old Xen's: how many say, as the entry before them on their CPU does, who it was.
    let (mut same, mut different) = (0u64, 0u64);
    let mut behind_name = Codes::default();
    let mut entered: FxHashMap<u32, u32> = FxHashMap::default();
    while looked < ENOUGH || looked < AT_MOST && survey.codes.all == 0 {
        let Some((cpu, len)) = Windows::at(input, at)? else { break };
        let data = at + Windows::HEADER;
        let bytes = input.read_vec(data, u64::from(len).min(OF_A_WINDOW))?;
        let mut rest = &bytes[..];
        while let Some((record, size)) = Record::parse(rest) {
            rest = &rest[size..];
            match record.id {
                0x0008_1001 if record.extra() == 1 => {
                    entered.insert(cpu, record.word(0).unwrap_or(0));
                }
                0x0008_1002 | 0x0008_1102 => {
                    let words = if record.id & 0x100 == 0 { 3 } else { 4 };
                    match entered.remove(&cpu) {
                        Some(who) if record.extra() == words && record.word(0) == Some(who) => same += 1,
                        Some(_) => different += 1,
                        None => {}
                    }
                    survey.codes.count(record.word(0).unwrap_or(0));
                    behind_name.count(record.word(1).unwrap_or(0));
                }
                _ => {
                    if let Some(vcpu) = running_before(&record) {
                        survey.first.entry(cpu).or_insert(vcpu);
                    }
                }
            }
        }
        looked += Windows::HEADER + bytes.len() as u64;
        at = data + u64::from(len);
    }
    survey.names_first = same > different;
    if survey.names_first {
        survey.codes = behind_name;
    }
    Ok(survey)
}

/// What `xl info` printed, as far as it matters here.
#[derive(Debug, Default)]
pub(super) struct Sidecar {
    /// Cycles per second.
    pub hz: Option<u64>,
    /// Physical CPUs.
    pub cpus: u32,
    /// Machine architecture.
    pub machine: String,
    /// Version of Xen.
    pub version: String,
}

/// Bytes of a sidecar that are read. `xl info` prints about 2 KB.
const SIDECAR_BYTES: u64 = 64 << 10;

impl Sidecar {
    /// The sidecar of `input`, empty if there is none.
    pub fn of(input: &Input) -> Result<Sidecar, TraceError> {
        match input.sidecar_path(Sidecar::ENDING).filter(|path| path.is_file()) {
            Some(path) => {
                let bytes = Input::open(&path)?.read_vec(0, SIDECAR_BYTES)?;
                Ok(Sidecar::parse(&String::from_utf8_lossy(&bytes)))
            }
            None => Ok(Sidecar::default()),
        }
    }

    /// How a log's sidecar is called: as the log, and this.
    pub const ENDING: &str = ".xl-info";

    fn parse(text: &str) -> Sidecar {
        let mut info = Sidecar::default();
        for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            match key.trim() {
                "cpu_mhz" => info.hz = hertz(value),
                "nr_cpus" => info.cpus = value.parse().unwrap_or(0),
                "machine" => info.machine = value.to_string(),
                "xen_version" => info.version = format!("Xen {value}"),
                _ => {}
            }
        }
        info
    }
}

/// Megahertz with decimals, as `xl info` prints them.
fn hertz(mhz: &str) -> Option<u64> {
    let (whole, part) = mhz.split_once('.').unwrap_or((mhz, ""));
    let part = format!("{part:0<6}");
    let part: u64 = part.get(..6)?.parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(part).filter(|&hz| hz > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_read_from_what_xl_info_prints() {
        let text = "host                   : dom0\nmachine                : x86_64\nnr_cpus                : 2\n\
                    cpu_mhz                : 2596.120\nxen_version            : 4.17.5\n";
        let info = Sidecar::parse(text);
        assert_eq!((info.hz, info.cpus), (Some(2_596_120_000), 2));
        assert_eq!((info.machine.as_str(), info.version.as_str()), ("x86_64", "Xen 4.17.5"));
        assert_eq!(["0.000", "x", "", "99999999999999999"].map(hertz), [None; 4]);
    }

    #[test]
    fn codes_tell_the_vendor_but_for_a_few_damaged_ones() {
        let mode = |reasons: &[u32]| {
            let mut codes = Codes::default();
            reasons.iter().for_each(|&reason| codes.count(reason));
            codes.mode()
        };
        assert_eq!(mode(&[]), None);
        assert_eq!(mode(&[0x7b, 0x10, 0x4e]), Some(XenMode::Svm));
        assert_eq!(mode(&[30, 12, 48, 0x8000_0021]), Some(XenMode::Vmx));
        let stray: Vec<u32> = (0..100).map(|at| if at == 50 { 0x7b } else { 30 }).collect();
        assert_eq!(mode(&stray), Some(XenMode::Vmx));
    }
}
