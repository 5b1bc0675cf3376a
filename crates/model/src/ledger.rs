//! The ledger: everything that was seen and not used, by name, with a severity.

use exitscope_units::Moment;

/// How loudly a line has to be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Ordinary: such events belong to no exit.
    Info,
    /// Worth knowing, the figures stand.
    Notice,
    /// Something was lost: counts are too low by about this much.
    Loss,
    /// The file is damaged here.
    Error,
}

macro_rules! lines {
    ($($name:ident $severity:ident $id:literal $prose:literal)*) => {
        /// What can be seen and not used.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum LedgerLine { $(#[doc = $prose] $name),* }

        impl LedgerLine {
            /// Every line, in the order in which they are shown.
            pub const ALL: &'static [LedgerLine] = &[$(LedgerLine::$name),*];

            /// The lines of what could not be understood.
            pub const NOT_UNDERSTOOD: [LedgerLine; 5] = [
                LedgerLine::UnknownFormat,
                LedgerLine::UnreadFields,
                LedgerLine::BadRecord,
                LedgerLine::BadText,
                LedgerLine::UnknownRecord,
            ];

            /// The lines of a recording of which a part is missing, nobody knows how much: it was not finished, is cut, or
            /// does not unpack.
            pub const CUT: [LedgerLine; 3] = [LedgerLine::UnfinishedFile, LedgerLine::TruncatedBytes, LedgerLine::BadCompression];

            /// The lines of which it is unknown whether they are of losses.
            pub const UNTOLD_LOSSES: [LedgerLine; 2] = [LedgerLine::MissingLines, LedgerLine::LossUnknown];

            /// The name in JSON and in docs/losses.md.
            pub const fn id(self) -> &'static str {
                match self { $(LedgerLine::$name => $id),* }
            }

            /// How loudly it has to be said.
            pub const fn severity(self) -> Severity {
                match self { $(LedgerLine::$name => Severity::$severity),* }
            }

            /// One sentence for a person.
            pub const fn prose(self) -> &'static str {
                match self { $(LedgerLine::$name => $prose),* }
            }
        }
    };
}

lines! {
    OutsideExit Info "outside_exit" "KVM events that belong to no exit: interrupt lines, timers, other threads."
    Scheduler Info "scheduler" "Scheduler events that fall outside every open exit."
    OtherTracepoint Info "other_tracepoint" "Events of tracepoints that were not needed for what was asked."
    NotTracepoint Info "not_a_tracepoint" "Samples of hardware or software events, not of tracepoints."
    GuestEvent Info "guest_event" "Events of a guest's own recording that is read together with others: they are of the guest's threads and CPUs, not of the host's."
    GuestRecording Notice "guest_recording" "Recordings of a guest's own kernel: its exits are in the recording of its host."
    EntryWithoutExit Notice "entry_without_exit" "Entries into a guest whose exit was before the recording, or was lost."
    VmEnded Notice "vm_ended" "vCPUs that never entered their guest again after their VM was powered off, reset or failed; their time ends at that moment."
    EndsEarly Notice "ends_early" "vCPUs without events in the last twentieth of the recording: their time ends with the last event that shows where they were, and what follows is not part of it."
    UnfinishedExit Notice "unfinished_exit" "Exits still open when the recording ended; they are counted but not timed."
    ExitWithoutEntry Notice "exit_without_entry" "Exits followed by another exit without an entry between; they are counted but not timed."
    NoKvmExit Notice "no_kvm_exit" "vCPUs without kvm_exit, because their KVM back end never fires it, or because it was not recorded: only exits to user space are seen, and time in the guest is not separated from time in the kernel."
    UnseenRun Notice "unseen_run" "Exits to user space after which nothing shows when KVM_RUN was entered again (kvm_fpu, sys_enter_ioctl): they are counted but not timed, and what the thread did until its next event is unknown."
    UnnamedVcpu Notice "unnamed_vcpu" "Exits without a scheduler record that names their vCPU: they are paired by physical CPU, which is right only while one vCPU has it."
    PairedByVcpu Notice "paired_by_vcpu" "Texts that name no thread: exits and entries are paired by the vCPU's number, as of one VM, events between are the vCPU's that left its guest last, and the scheduler's are left out. Of several VMs, figures are wrong."
    NoLength Notice "no_length" "Exits with equal exit and entry timestamps (coarse clock); their length counts as zero."
    BeforeRecording Notice "before_recording" "User-space returns of an exit that happened before the recording began."
    Overlapping Notice "overlapping" "Events of exits that an earlier file of the same host already holds; counted once."
    CopiedFile Notice "copied_file" "Files that add nothing to the others of their side, as copies do: they do not count as recordings."
    OutOfOrder Notice "out_of_order" "Events older than one already handled; they were used in the order they came."
    UnknownRecord Notice "unknown_record" "Records of a type that this reader does not know; skipped by their size."
    UncertainLoss Notice "uncertain_loss" "Records that the kernel counted and the file lacks; they are lost, or were counted twice while the recorder was still reading."
    LossUnknown Notice "loss_unknown" "Texts that do not record losses, so events may be missing unnoticed."
    MissingLines Notice "missing_lines" "Events that the header of a text counts and that do not follow it: it is cut or filtered, or they were lost."
    OtherScreen Notice "other_screen" "Screens of a monitor of a kind that is not read: docs/counts.md lists those that are."
    RepeatedScreen Notice "repeated_screen" "Screens, readings of counters, or tables of exits that an earlier one has as well; used once."
    CounterReset Notice "counter_reset" "Counters that are lower in a later reading: they began anew between the two, and no difference is made of these."
    UnfinishedFile Loss "unfinished_file" "Files that their recorder did not finish: what it had not written yet is missing, and event formats and names may be missing, too."
    UnknownFormat Loss "unknown_format" "Events whose format the trace does not carry, so that their fields cannot be read."
    UnreadFields Loss "unread_fields" "Events of a text whose fields could not be read: the text's lines are cut, or are not as the kernel prints them."
    LostRecords Loss "lost_records" "Records that were lost, as the recorder and the kernel's own counts say."
    UnplacedLoss Loss "unplaced_loss" "CPUs whose buffer lacks records at an unknown place; exits that span two pages of such a buffer are counted but not timed."
    ImpossibleExit Loss "impossible_exit" "Exits that cannot have been as they were recorded: a halt within an exit that cannot halt, an access within a HLT, or another CPU without a switch. Events between are missing; they are counted but not timed."
    ExitOutOfOrder Loss "exit_out_of_order" "Entries and exits older than what their vCPU had already done; the exits are counted but not timed."
    SpansLoss Loss "spans_loss" "Exits open while records were lost; they are counted but not timed."
    TooManyVcpus Loss "too_many_vcpus" "Events of vCPUs beyond the 262,144 that are kept: their exits are in no figure."
    BadRecord Error "bad_record" "Records too short or inconsistent to be read; skipped."
    BadText Error "bad_text" "Lines of a text trace that could not be understood."
    TruncatedBytes Error "truncated_bytes" "Bytes at the end of the file that do not make a whole record, or bytes that the header promises and the file lacks."
    BadCompression Error "bad_compression" "Compressed blocks that could not be unpacked; what they held is gone."
}

/// Moments that are kept of a line.
const MOST_MOMENTS: usize = 8;

/// Counts of what was seen and not used, and where each was first met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    counts: [u64; LedgerLine::ALL.len()],
    first: [Option<u64>; LedgerLine::ALL.len()],
    /// When the first few of a line were.
    moments: Vec<(LedgerLine, Moment)>,
    /// Events that were read, used or not.
    pub events: u64,
    /// First and last moment of events that were counted here instead of being passed on.
    skipped: (Moment, Moment),
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger {
            counts: [0; LedgerLine::ALL.len()],
            first: [None; LedgerLine::ALL.len()],
            moments: Vec::new(),
            events: 0,
            skipped: (Moment::MAX, Moment::from_nanos(0)),
        }
    }
}

impl Ledger {
    /// Counts one.
    #[inline]
    pub fn count(&mut self, line: LedgerLine) {
        self.add(line, 1);
    }

    /// Counts `n`.
    #[inline]
    pub fn add(&mut self, line: LedgerLine, n: u64) {
        let cell = &mut self.counts[line as usize];
        *cell = cell.saturating_add(n);
    }

    /// Counts one thing met at byte `offset` of the file (line number for text).
    pub fn count_at(&mut self, line: LedgerLine, offset: u64) {
        self.add_at(line, 1, offset);
    }

    /// Counts `n`, the first met at byte `offset` of the file (line number for text).
    pub fn add_at(&mut self, line: LedgerLine, n: u64, offset: u64) {
        self.add(line, n);
        let first = &mut self.first[line as usize];
        *first = Some(first.map_or(offset, |known| known.min(offset)));
    }

    /// Counts one thing, and keeps when it was of the first few.
    pub fn count_moment(&mut self, line: LedgerLine, at: Moment) {
        self.count(line);
        if self.moments(line).count() < MOST_MOMENTS {
            self.moments.push((line, at));
        }
    }

    /// When the first few of a line were.
    pub fn moments(&self, line: LedgerLine) -> impl Iterator<Item = Moment> + '_ {
        self.moments.iter().filter(move |row| row.0 == line).map(|row| row.1)
    }

    /// Counts an event of a tracepoint that exit accounting does not use, which is not passed on.
    #[inline]
    pub fn skip(&mut self, at: Moment) {
        self.skip_all(1, at, at);
    }

    /// The same for `count` events, the first and the last of which are at these moments.
    #[inline]
    pub fn skip_all(&mut self, count: u64, first: Moment, last: Moment) {
        self.events += count;
        self.add(LedgerLine::OtherTracepoint, count);
        self.skipped = (self.skipped.0.min(first), self.skipped.1.max(last));
    }

    /// Whether not one event could be understood.
    pub fn is_unread(&self) -> bool {
        LedgerLine::NOT_UNDERSTOOD.iter().fold(0, |sum: u64, &line| sum.saturating_add(self.get(line))) >= self.events
    }

    /// Records that were lost; `None` if none is known of and a trace would not say.
    pub fn lost(&self) -> Option<u64> {
        Some(self.get(LedgerLine::LostRecords)).filter(|&lost| lost > 0 || self.more_may_be_lost().is_none())
    }

    /// Of which line it is unknown whether it is of losses, if there is one.
    pub fn more_may_be_lost(&self) -> Option<LedgerLine> {
        LedgerLine::UNTOLD_LOSSES.into_iter().find(|&line| self.get(line) > 0)
    }

    /// Whether a part of the recording is missing, nobody knows how much.
    pub fn is_cut(&self) -> bool {
        LedgerLine::CUT.iter().any(|&line| self.get(line) > 0)
    }

    /// First and last moment of the events that were not passed on.
    pub fn skipped(&self) -> Option<(Moment, Moment)> {
        (self.skipped.0 <= self.skipped.1).then_some(self.skipped)
    }

    /// How many of `line` there were.
    pub fn get(&self, line: LedgerLine) -> u64 {
        self.counts[line as usize]
    }

    /// Where the first of `line` was met: byte offset, or line number for text.
    pub fn first(&self, line: LedgerLine) -> Option<u64> {
        self.first[line as usize]
    }

    /// Adds what another ledger counted.
    pub fn merge(&mut self, other: &Ledger) {
        self.events += other.events;
        self.skipped = (self.skipped.0.min(other.skipped.0), self.skipped.1.max(other.skipped.1));
        for &(line, at) in &other.moments {
            if self.moments(line).count() < MOST_MOMENTS {
                self.moments.push((line, at));
            }
        }
        for &line in LedgerLine::ALL {
            self.add(line, other.get(line));
            if let Some(offset) = other.first(line) {
                let first = &mut self.first[line as usize];
                *first = Some(first.map_or(offset, |known| known.min(offset)));
            }
        }
    }

    /// The lines that are not zero, in order.
    pub fn lines(&self) -> impl Iterator<Item = (LedgerLine, u64)> + '_ {
        LedgerLine::ALL.iter().map(|&line| (line, self.get(line))).filter(|row| row.1 > 0)
    }

    /// Events that went into no exit row: with the rows' own events they make up all events read.
    pub fn events_outside_rows(&self) -> u64 {
        self.get(LedgerLine::OutsideExit)
            + self.get(LedgerLine::Scheduler)
            + self.get(LedgerLine::OtherTracepoint)
            + self.get(LedgerLine::GuestEvent)
            + self.get(LedgerLine::EntryWithoutExit)
            + self.get(LedgerLine::BeforeRecording)
            + self.get(LedgerLine::Overlapping)
    }
}
