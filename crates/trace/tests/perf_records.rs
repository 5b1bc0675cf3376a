//! Records as perf writes them when things go wrong: losses said twice, names cut inside a character, compressed records
//! of any size, damage in the middle, samples in other files. Every file is made here, record by record.

use exitscope_model::{Event, EventKind, Ledger, LedgerLine};
use exitscope_trace::{EventSource, Input, SourceOptions, TraceError, open_input};

const LOST: u32 = 2;
const COMM: u32 = 3;
const SAMPLE: u32 = 9;
const LOST_SAMPLES: u32 = 13;
const HEADER_ATTR: u32 = 64;
const HEADER_TRACING_DATA: u32 = 66;
const FINISHED_ROUND: u32 = 68;
const AUXTRACE: u32 = 71;
const HEADER_FEATURE: u32 = 80;
const COMPRESSED2: u32 = 83;

/// `TID | TIME | CPU | RAW`, with `sample_id_all`.
fn attr() -> Vec<u8> {
    let mut attr = vec![0; 112];
    attr[0..4].copy_from_slice(&2u32.to_le_bytes());
    attr[4..8].copy_from_slice(&112u32.to_le_bytes());
    attr[24..32].copy_from_slice(&(2u64 | 4 | 0x80 | 0x400).to_le_bytes());
    attr[40..48].copy_from_slice(&(1u64 << 18).to_le_bytes());
    attr
}

fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let size = (8 + body.len()) as u16;
    [&kind.to_le_bytes()[..], &misc.to_le_bytes(), &size.to_le_bytes(), body].concat()
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A `kvm:kvm_entry` of vCPU 1 at `time`.
fn entry(time: u64) -> Vec<u8> {
    let raw = [&7u16.to_le_bytes()[..], &[0, 0], &42u32.to_le_bytes(), &1u32.to_le_bytes()].concat();
    record(SAMPLE, 1, &[words(&[41 | 42 << 32, time, 0]), 12u32.to_le_bytes().to_vec(), raw].concat())
}

/// What ends a record that is no sample: pid and tid, time, CPU.
fn trailer(time: u64) -> Vec<u8> {
    words(&[0, time, 0])
}

fn tracing_data() -> Vec<u8> {
    let format = "name: kvm_entry\nID: 7\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
        \tfield:unsigned int vcpu_id;\toffset:8;\tsize:4;\tsigned:0;\n";
    let mut data = b"\x17\x08\x44tracing0.6\0\0\x08\0\x10\0\0header_page\0".to_vec();
    data.extend(words(&[0]));
    data.extend(b"header_event\0");
    data.extend(words(&[0]));
    data.extend([0u32, 1].iter().flat_map(|n| n.to_le_bytes()));
    data.extend(b"kvm\0\x01\0\0\0");
    data.extend(words(&[format.len() as u64]));
    data.extend(format.as_bytes());
    data.extend(words(&[0, 0]));
    data
}

/// A pipe with one attr and one format, and `records`.
fn pipe(records: &[Vec<u8>]) -> Vec<u8> {
    let mut file = [&b"PERFILE2"[..], &16u64.to_le_bytes()].concat();
    file.extend(record(HEADER_ATTR, 0, &attr()));
    let mut data = tracing_data();
    file.extend(record(HEADER_TRACING_DATA, 0, &(data.len() as u32).to_le_bytes()));
    data.resize(data.len().next_multiple_of(8), 0);
    file.extend(data);
    file.extend(records.concat());
    file
}

/// A file with one attr, `records` and these feature bits, whose sections are empty.
fn file(records: &[Vec<u8>], features: u64) -> Vec<u8> {
    let data: Vec<u8> = records.concat();
    let mut file = b"PERFILE2".to_vec();
    file.extend(words(&[104, 128, 104, 128, 232, data.len() as u64, 0, 0, features, 0, 0, 0]));
    file.extend(attr());
    file.extend(words(&[0, 0]));
    file.extend(data);
    file.extend(words(&vec![0; features.count_ones() as usize * 2]));
    file
}

fn source(bytes: &[u8]) -> Box<dyn EventSource> {
    open_input(Input::from_bytes("made", bytes).unwrap(), SourceOptions::default()).unwrap()
}

fn read(source: &mut dyn EventSource) -> Result<(Vec<Event>, Ledger), TraceError> {
    let (mut events, mut ledger) = (Vec::new(), Ledger::default());
    while source.read(&mut events, &mut ledger)? {}
    Ok((events, ledger))
}

fn events(bytes: &[u8]) -> (Vec<Event>, Ledger) {
    read(&mut *source(bytes)).unwrap()
}

/// When events were, without the holes that damage leaves.
fn times(events: &[Event]) -> Vec<u64> {
    let hole = EventKind::Lost { count: 0 };
    events.iter().filter(|event| event.kind != hole).map(|event| event.at.as_nanos()).collect()
}

/// Zstd in one stream over all of `records`, flushed now and then, in compressed records of at most `piece` bytes.
fn compressed(records: &[Vec<u8>], piece: usize) -> Vec<Vec<u8>> {
    let stream = zstd::encode_all(&records.concat()[..], 1).unwrap();
    let packed = |part: &[u8]| {
        let mut body = words(&[part.len() as u64]);
        body.extend(part);
        body.resize(body.len().next_multiple_of(8), 0);
        record(COMPRESSED2, 0, &body)
    };
    stream.chunks(piece).map(packed).collect()
}

fn lost(count: u64, time: u64) -> Vec<u8> {
    record(LOST, 0, &[words(&[9, count]), trailer(time)].concat())
}

fn lost_samples(misc: u16, count: u64, time: u64) -> Vec<u8> {
    record(LOST_SAMPLES, misc, &[words(&[count]), trailer(time)].concat())
}

#[test]
fn what_perf_totals_at_the_end_is_not_lost_a_second_time() {
    let (all, ledger) = events(&pipe(&[entry(10), lost(5, 20), entry(30), lost(7, 40), lost_samples(0, 12, 0)]));
    assert_eq!(ledger.get(LedgerLine::LostRecords), 12);
    assert_eq!(times(&all), [10, 20, 30, 40]);
    assert_eq!(ledger.events, 2);
}

#[test]
fn what_only_the_totals_know_is_lost_at_the_end() {
    let (all, ledger) =
        events(&pipe(&[entry(10), lost(5, 20), entry(30), lost_samples(0, 6, 0), lost_samples(0, 3, 0)]));
    assert_eq!(ledger.get(LedgerLine::LostRecords), 9);
    assert_eq!(times(&all), [10, 20, 30, 30]);
    assert_eq!(all[3].kind, EventKind::Lost { count: 4 });
}

#[test]
fn the_kernels_own_lost_samples_count_and_filtered_ones_do_not() {
    let (all, ledger) = events(&pipe(&[lost_samples(0, 4, 20), lost_samples(1 << 15, 100, 0)]));
    assert_eq!(ledger.get(LedgerLine::LostRecords), 4);
    assert_eq!(times(&all), [20]);
}

#[test]
fn a_name_cut_inside_a_character_is_no_damage() {
    let body = [&words(&[41 | 42 << 32])[..], b"K\xc3\xb6nig \xe2\x82\0\0\0\0\0\0\0", &trailer(1)].concat();
    let bytes = pipe(&[record(COMM, 0, &body)]);
    let mut source = source(&bytes);
    let (_, ledger) = read(&mut *source).unwrap();
    assert_eq!(ledger.get(LedgerLine::BadRecord), 0);
    assert_eq!(source.info().comms.get(&42).map(String::as_str), Some("König \u{fffd}"));
}

#[test]
fn records_are_the_same_compressed_in_pieces_of_any_size() {
    let records: Vec<Vec<u8>> = (0..3000).map(|n| entry(1000 + n * 7 % 500 + n)).collect();
    let (plain, _) = events(&pipe(&records));
    for piece in [1, 7, 100, 60_000] {
        let (unpacked, ledger) = events(&pipe(&compressed(&records, piece)));
        assert_eq!(unpacked, plain, "pieces of {piece}");
        assert_eq!(ledger.lines().count(), 0, "pieces of {piece}");
    }
}

#[test]
fn many_small_records_between_samples_change_nothing() {
    let records: Vec<Vec<u8>> = (0..20_000)
        .flat_map(|n| [entry(n), record(HEADER_FEATURE, 0, &words(&[200])), record(AUXTRACE, 0, &words(&[0; 5]))])
        .collect();
    let (all, ledger) = events(&pipe(&records));
    assert_eq!(times(&all), (0..20_000).collect::<Vec<_>>());
    assert_eq!(ledger.lines().count(), 0);
}

#[test]
fn a_stream_that_grows_without_end_is_left() {
    let rounds = vec![record(FINISHED_ROUND, 0, &[]); 1 << 16];
    let frame = zstd::encode_all(&rounds.concat().repeat(600)[..], 1).unwrap();
    let mut records = vec![entry(1)];
    for part in frame.chunks(1 << 12) {
        let mut body = words(&[part.len() as u64]);
        body.extend(part);
        records.push(record(COMPRESSED2, 0, &body));
    }
    records.push(entry(2));
    let (all, ledger) = events(&pipe(&records));
    assert_eq!(times(&all), [1, 2]);
    assert!(ledger.get(LedgerLine::BadCompression) > 0);
}

#[test]
fn after_damage_every_whole_record_is_found_again_up_to_the_last() {
    for behind in 1..6 {
        let mut records = vec![entry(1), record(FINISHED_ROUND, 0, &[])];
        records.push(vec![0; 4096]);
        records.extend((0..behind).map(|n| entry(10 + n)));
        let (all, ledger) = events(&pipe(&records));
        assert_eq!(times(&all)[1..], (10..10 + behind).collect::<Vec<_>>(), "{behind} behind the damage");
        assert_eq!(ledger.get(LedgerLine::BadRecord), 1);
        assert_eq!(all[1].kind, EventKind::Lost { count: 0 });
    }
}

#[test]
fn a_size_that_leads_off_the_grid_costs_few_records() {
    let mut records: Vec<Vec<u8>> = (0..2000).map(entry).collect();
    records[100][6] ^= 1;
    let (all, ledger) = events(&pipe(&records));
    assert!(all.len() > 1900, "{} events", all.len());
    assert_eq!(all.last().unwrap().at.as_nanos(), 1999);
    assert!(ledger.get(LedgerLine::BadRecord) + ledger.get(LedgerLine::UnknownRecord) > 0);
}

#[test]
fn a_type_that_perf_does_not_have_is_said() {
    for kind in [0, 23, 63, 87, 4000] {
        let (all, ledger) = events(&pipe(&[entry(1), record(kind, 0, &words(&[1, 2])), entry(2)]));
        assert_eq!((times(&all), ledger.get(LedgerLine::UnknownRecord)), (vec![1, 2], 1), "type {kind}");
    }
}

#[test]
fn compressed_records_in_a_file_that_does_not_announce_them_are_said() {
    let (_, ledger) = events(&file(&compressed(&[entry(1)], 4096), 0));
    assert_eq!(ledger.get(LedgerLine::BadCompression), 1);
}

#[test]
fn trailing_data_that_the_pipe_lacks_is_said() {
    let (_, ledger) = events(&pipe(&[entry(1), record(AUXTRACE, 0, &words(&[1 << 40, 0, 0, 0, 0]))]));
    assert_eq!(ledger.get(LedgerLine::TruncatedBytes), 1 << 40);
}

#[test]
fn a_file_whose_samples_lie_beside_it_is_refused() {
    let directory = 1 << 24;
    assert!(matches!(read(&mut *source(&file(&[], directory))), Err(TraceError::Unsupported { .. })));
    // With --kcore the directory holds other things, and the samples are here.
    let (all, _) = read(&mut *source(&file(&[entry(1)], directory))).unwrap();
    assert_eq!(times(&all), [1]);
}
