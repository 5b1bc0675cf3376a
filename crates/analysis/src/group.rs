//! Exits grouped by any list of dimensions.

use crate::stats_by_key::MAX_KEYS;
use crate::timeline::wider;
use crate::{ExitStats, SubjectKey};
use exitscope_model::{Exit, ExitCode, Handler, SubjectKind};
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};
use rustc_hash::FxHashMap;

/// Buckets of time at most, where no width is asked for.
const MAX_BUCKETS: u64 = 40;

/// The narrowest bucket of time, in nanoseconds.
const NARROWEST: u64 = 1_000;

/// What exits can be grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// The VM.
    Vm,
    /// The vCPU's number, or its thread where nothing says the number.
    Vcpu,
    /// The exit reason.
    Reason,
    /// What the exit was about, of any kind, or that it was about nothing.
    Subject,
    /// Where to: the kernel, or which user-space reason.
    Handler,
    /// I/O port and direction.
    Port,
    /// Page of guest-physical address space and direction.
    Mmio,
    /// MSR and direction.
    Msr,
    /// Hypercall, of any kind.
    Hypercall,
    /// CPUID leaf.
    Cpuid,
    /// Where in the guest: its instruction pointer.
    Rip,
    /// Physical CPU.
    Cpu,
    /// Bucket of time: of this width, or of one that gives at most 40 buckets.
    Time(Option<Nanos>),
}

impl Dimension {
    /// Every dimension.
    pub const ALL: [Dimension; 13] = [
        Dimension::Vm,
        Dimension::Vcpu,
        Dimension::Reason,
        Dimension::Subject,
        Dimension::Handler,
        Dimension::Port,
        Dimension::Mmio,
        Dimension::Msr,
        Dimension::Hypercall,
        Dimension::Cpuid,
        Dimension::Rip,
        Dimension::Cpu,
        Dimension::Time(None),
    ];

    /// The dimension of this name.
    pub fn parse(name: &str) -> Option<Dimension> {
        Dimension::ALL.into_iter().find(|dim| dim.name() == name)
    }

    /// The dimension's name.
    pub fn name(self) -> &'static str {
        match self {
            Dimension::Vm => "vm",
            Dimension::Vcpu => "vcpu",
            Dimension::Reason => "reason",
            Dimension::Subject => "subject",
            Dimension::Handler => "handler",
            Dimension::Port => "port",
            Dimension::Mmio => "mmio",
            Dimension::Msr => "msr",
            Dimension::Hypercall => "hypercall",
            Dimension::Cpuid => "cpuid",
            Dimension::Rip => "rip",
            Dimension::Cpu => "cpu",
            Dimension::Time(_) => "time",
        }
    }

    /// This exit's place along the dimension; `None` if it has none there (a HLT has no port).
    #[inline]
    fn part(self, exit: &Exit, width: u64) -> Option<DimensionValue> {
        let about = |wanted: SubjectKind| exit.subject().filter(|detail| detail.kind == wanted);
        Some(match self {
            Dimension::Vm => DimensionValue::Vm(exit.who.vm),
            Dimension::Vcpu if exit.who.vcpu == VcpuId::UNKNOWN => DimensionValue::Thread(exit.who.tid),
            // Where nothing says the VM, two may each have a vCPU of this number.
            Dimension::Vcpu if exit.who.vm == VmId::UNKNOWN && exit.who.tid != Tid(0) => {
                DimensionValue::Thread(exit.who.tid)
            }
            Dimension::Vcpu => DimensionValue::Vcpu(exit.who.vcpu),
            Dimension::Reason => DimensionValue::Reason(exit.code),
            Dimension::Subject => DimensionValue::Subject(exit.subject.map(SubjectKey::of)),
            Dimension::Handler => DimensionValue::Handler(exit.handler),
            Dimension::Port => DimensionValue::Detail(SubjectKey::of(about(SubjectKind::Port)?)),
            Dimension::Mmio => DimensionValue::Detail(SubjectKey::of(about(SubjectKind::Mmio)?)),
            Dimension::Msr => DimensionValue::Detail(SubjectKey::of(about(SubjectKind::Msr)?)),
            Dimension::Cpuid => DimensionValue::Detail(SubjectKey::of(about(SubjectKind::Cpuid)?)),
            Dimension::Hypercall => {
                DimensionValue::Detail(SubjectKey::of(exit.subject().filter(|detail| detail.kind.is_hypercall())?))
            }
            Dimension::Rip if exit.rip == 0 => return None,
            Dimension::Rip => DimensionValue::Rip(exit.rip),
            Dimension::Cpu => DimensionValue::Cpu(exit.cpu),
            Dimension::Time(_) => DimensionValue::Time(Moment::from_nanos(exit.at.as_nanos() / width * width)),
        })
    }
}

/// A place along a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DimensionValue {
    /// A VM.
    Vm(VmId),
    /// A vCPU.
    Vcpu(VcpuId),
    /// The thread of a vCPU whose number nothing says.
    Thread(Tid),
    /// An exit reason.
    Reason(ExitCode),
    /// What the exit was about, of any kind; none if it was about nothing.
    Subject(Option<SubjectKey>),
    /// Where to.
    Handler(Handler),
    /// What the exit was about.
    Detail(SubjectKey),
    /// An instruction pointer.
    Rip(u64),
    /// A physical CPU.
    Cpu(PcpuId),
    /// A bucket of time, by its beginning.
    Time(Moment),
}

/// Exits grouped by a list of dimensions.
#[derive(Clone, Debug)]
pub struct ExitGroups {
    dims: Vec<Dimension>,
    index: FxHashMap<Box<[DimensionValue]>, u32>,
    cells: Vec<(Box<[DimensionValue]>, ExitStats)>,
    /// Exits of groups beyond [`MAX_KEYS`].
    pub other: ExitStats,
    /// Exits that have no place along one of the dimensions.
    pub elsewhere: u64,
    width: u64,
    /// First and last bucket of time.
    range: Option<(u64, u64)>,
    last: usize,
    scratch: Vec<DimensionValue>,
}

impl ExitGroups {
    /// Groups by `dims`.
    pub fn by(dims: &[Dimension]) -> ExitGroups {
        let asked = dims.iter().find_map(|dim| match dim {
            Dimension::Time(width) => width.map(|width| width.0.max(1)),
            _ => None,
        });
        ExitGroups {
            dims: dims.to_vec(),
            index: FxHashMap::default(),
            cells: Vec::new(),
            other: ExitStats::default(),
            elsewhere: 0,
            width: asked.unwrap_or(NARROWEST),
            range: None,
            last: 0,
            scratch: Vec::new(),
        }
    }

    /// The dimensions.
    pub fn dims(&self) -> &[Dimension] {
        &self.dims
    }

    /// Width of a bucket of time.
    pub fn width(&self) -> Nanos {
        Nanos(self.width)
    }

    /// Width of a bucket of time, if exits are grouped by time.
    pub fn bucket(&self) -> Option<Nanos> {
        self.dims.iter().any(|dim| matches!(dim, Dimension::Time(_))).then_some(self.width())
    }

    /// Adds one exit.
    #[inline]
    pub fn absorb(&mut self, exit: &Exit) {
        if self.dims.contains(&Dimension::Time(None)) {
            self.widen_for(exit.at.as_nanos());
        }
        self.scratch.clear();
        for dim in &self.dims {
            match dim.part(exit, self.width) {
                Some(part) => self.scratch.push(part),
                None => {
                    self.elsewhere += 1;
                    return;
                }
            }
        }
        match self.cells.get_mut(self.last) {
            Some((known, stats)) if **known == *self.scratch => stats.absorb(exit),
            _ => {
                let key = std::mem::take(&mut self.scratch);
                self.stats(&key).absorb(exit);
                self.scratch = key;
            }
        }
    }

    /// Adds figures to the group of this key.
    pub(crate) fn merge_at(&mut self, key: &[DimensionValue], stats: &ExitStats) {
        self.stats(key).merge(stats);
    }

    /// Adds what another group of the same dimensions holds.
    pub fn merge(&mut self, other: &ExitGroups) {
        let mut other = other.clone();
        while self.width < other.width {
            self.widen();
        }
        while other.width < self.width {
            other.widen();
        }
        for (key, stats) in &other.cells {
            self.stats(key).merge(stats);
        }
        self.other.merge(&other.other);
        self.elsewhere += other.elsewhere;
        self.range = [self.range, other.range].into_iter().flatten().reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        while self.too_many() {
            self.widen();
        }
    }

    /// Names vCPUs that were found out after their exits were grouped.
    pub fn complete(&mut self, vcpu_of: &FxHashMap<Tid, VcpuId>) {
        // A vCPU's number says something only together with its VM.
        self.rekey(|key, part| match part {
            DimensionValue::Thread(tid) if !key.contains(&DimensionValue::Vm(VmId::UNKNOWN)) => {
                vcpu_of.get(tid).map(|&vcpu| DimensionValue::Vcpu(vcpu))
            }
            _ => None,
        });
    }

    /// The instruction pointers of all groups.
    pub fn rips(&self) -> impl Iterator<Item = u64> {
        self.cells.iter().flat_map(|(key, _)| key.iter()).filter_map(|part| match part {
            DimensionValue::Rip(rip) => Some(*rip),
            _ => None,
        })
    }

    /// Puts together the groups whose instruction pointers are of one function, which begins at `start_of` any of them.
    pub fn by_function(&mut self, start_of: impl Fn(u64) -> Option<u64>) {
        self.rekey(|_, part| match part {
            DimensionValue::Rip(rip) => start_of(*rip).map(DimensionValue::Rip),
            _ => None,
        });
    }

    /// Every group, in the order of its key.
    pub fn cells(&self) -> Vec<(&[DimensionValue], &ExitStats)> {
        let mut cells: Vec<_> = self.cells.iter().map(|(key, stats)| (&**key, stats)).collect();
        cells.sort_by_key(|row| row.0);
        cells
    }

    #[inline]
    fn stats(&mut self, key: &[DimensionValue]) -> &mut ExitStats {
        if let Some(&at) = self.index.get(key) {
            self.last = at as usize;
            return &mut self.cells[self.last].1;
        }
        if self.cells.len() >= MAX_KEYS {
            return &mut self.other;
        }
        self.last = self.cells.len();
        self.index.insert(key.into(), self.last as u32);
        self.cells.push((key.into(), ExitStats::default()));
        &mut self.cells[self.last].1
    }

    fn widen_for(&mut self, at: u64) {
        let bucket = at / self.width;
        let range = self.range.map_or((bucket, bucket), |range| (range.0.min(bucket), range.1.max(bucket)));
        self.range = Some(range);
        while self.too_many() {
            self.widen();
        }
    }

    fn too_many(&self) -> bool {
        self.range.is_some_and(|(first, last)| last - first >= MAX_BUCKETS)
    }

    fn widen(&mut self) {
        let wide = wider(self.width);
        let factor = wide / self.width;
        self.width = wide;
        self.range = self.range.map(|(first, last)| (first / factor, last / factor));
        self.rekey(|_, part| match part {
            DimensionValue::Time(at) => Some(DimensionValue::Time(Moment::from_nanos(at.as_nanos() / wide * wide))),
            _ => None,
        });
    }

    /// Replaces parts of keys and puts together the groups that are now the same.
    fn rekey(&mut self, replace: impl Fn(&[DimensionValue], &DimensionValue) -> Option<DimensionValue>) {
        self.index.clear();
        for (mut key, stats) in std::mem::take(&mut self.cells) {
            for at in 0..key.len() {
                key[at] = replace(&key, &key[at]).unwrap_or(key[at]);
            }
            self.stats(&key).merge(&stats);
        }
        self.last = 0;
    }
}
