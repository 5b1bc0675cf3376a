//! Samples of a capture in, events out: what reading a recording of them would give.

use exitscope_live::ThreadNames;
use exitscope_model::{Event, EventNames, Ledger, LedgerLine};
use exitscope_record::{Tracepoint, TracepointSample};
use exitscope_trace::EventFilter;
use exitscope_trace::tracefs::{Decoder, Format};
use exitscope_units::{Moment, PcpuId};

/// What came since the last [`SampleDecoder::clear`].
pub struct SampleDecoder {
    /// In the order of time.
    pub events: Vec<Event>,
    /// What is in no event.
    pub ledger: Ledger,
    /// Threads that are new, and what they are called.
    pub named: Vec<(u32, String)>,
    decoders: Vec<Decoder>,
    threads: ThreadNames,
    record: Vec<u8>,
}

impl SampleDecoder {
    /// For samples of these tracepoints.
    pub fn new(tracepoints: &[Tracepoint], names: &mut EventNames) -> SampleDecoder {
        let decoder = |of: &Tracepoint| Some(Decoder::new(&of.system, &Format::parse(&of.format)?, names));
        SampleDecoder {
            events: Vec::new(),
            ledger: Ledger::default(),
            named: Vec::new(),
            // A tracepoint is made from such a format.
            decoders: tracepoints.iter().filter_map(decoder).collect(),
            threads: ThreadNames::new(tracepoints),
            record: Vec::new(),
        }
    }

    /// Whether samples of this tracepoint become events.
    pub fn takes(of: &Tracepoint) -> bool {
        let decoder =
            Format::parse(&of.format).map(|format| Decoder::new(&of.system, &format, &mut EventNames::default()));
        decoder.is_some_and(|decoder| decoder.is_kept(EventFilter::Used))
    }

    /// Adds a sample.
    pub fn take(&mut self, sample: TracepointSample) {
        let Some(decoder) = self.decoders.get(sample.tracepoint) else {
            return self.ledger.count(LedgerLine::UnknownFormat);
        };
        if !decoder.is_kept(EventFilter::Used) {
            return self.ledger.skip(Moment::from_nanos(sample.time));
        }
        self.ledger.events += 1;
        let Some(event) = sample.event(decoder, &mut self.record) else {
            return self.ledger.count(LedgerLine::BadRecord);
        };
        self.events.push(event);
        self.named.extend(self.threads.new_in(&sample));
    }

    /// Adds that so many records of a CPU were lost.
    pub fn lose(&mut self, at: u64, cpu: u32, count: u64) {
        self.ledger.add(LedgerLine::LostRecords, count.max(1));
        self.events.push(Event::lost(Moment::from_nanos(at), PcpuId(cpu), count));
    }

    /// Forgets what came until now.
    pub fn clear(&mut self) {
        self.events.clear();
        self.named.clear();
        self.ledger = Ledger::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::{EventKind, NameId};
    use exitscope_units::Tid;

    const PIO: &str = "name: kvm_userspace_exit\nID: 77\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:__u32 reason;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:int errno;\toffset:12;\tsize:4;\tsigned:1;\n";

    fn tracepoint() -> Tracepoint {
        Tracepoint {
            system: "kvm".into(),
            name: "kvm_userspace_exit".into(),
            id: 77,
            size: 16,
            format: PIO.into(),
            threads: Vec::new(),
        }
    }

    #[test]
    fn a_sample_becomes_the_event_that_it_is_and_what_is_too_short_is_counted() {
        let mut decoder = SampleDecoder::new(&[tracepoint()], &mut EventNames::default());
        let mut payload = 2u32.to_ne_bytes().to_vec();
        payload.extend_from_slice(&0i32.to_ne_bytes());
        let of = |payload| TracepointSample { time: 5, cpu: 3, process: 1, thread: 1, tracepoint: 0, payload };
        decoder.take(of(&payload));
        decoder.take(of(&payload[..3]));
        decoder.lose(9, 3, 4);
        assert_eq!(decoder.ledger.events, 2);
        assert_eq!((decoder.ledger.get(LedgerLine::BadRecord), decoder.ledger.get(LedgerLine::LostRecords)), (1, 4));
        let event = decoder.events[0];
        assert!(matches!(event.kind, EventKind::UserspaceExit { reason: 2, .. }), "{event:?}");
        assert_eq!((event.at.as_nanos(), event.cpu, event.tid), (5, PcpuId(3), Tid(1)));
        assert_ne!(event.name, NameId::NONE);
        assert_eq!(decoder.named.len(), 1);
    }
}
