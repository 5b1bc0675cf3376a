//! Traces that are packed, and files that only look as if they were.

use exitscope_trace::{Input, TraceError};
use std::io::Write;
use std::path::Path;

/// A text trace's beginning, of more than the bytes by which a format is told.
fn text() -> Vec<u8> {
    b" qemu-system-x86-229     [001] d..1.    87.534187: kvm_entry: vcpu 0, rip 0xfff0\n".repeat(100)
}

fn open(bytes: &[u8]) -> Result<Input, TraceError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    Input::open(file.path())
}

/// `head`, and so many MiB of zeros.
fn packed(head: &[u8], zeros: usize) -> Vec<u8> {
    let mut packed = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
    packed.write_all(head).unwrap();
    (0..zeros).for_each(|_| packed.write_all(&vec![0; 1 << 20]).unwrap());
    packed.finish().unwrap()
}

#[test]
fn what_gzip_xz_and_zstd_packed_is_unpacked() {
    let text = text();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    gzip.write_all(&text).unwrap();
    xz.write_all(&text).unwrap();
    for bytes in [text.clone(), gzip.finish().unwrap(), xz.finish().unwrap(), packed(&text, 0)] {
        let input = open(&bytes).unwrap();
        assert!(input.truncation().is_none());
        assert_eq!(input.read_vec(0, input.len()).unwrap(), text);
    }
}

#[test]
fn what_begins_as_no_trace_is_not_unpacked() {
    // 4 GiB would take long, and half a minute of writing.
    let error = open(&packed(b"no trace", 4096)).unwrap_err();
    assert!(error.to_string().contains("is not a trace"), "{error}");
    let error = open(&packed(b"no trace", 0)).unwrap_err();
    assert!(error.to_string().contains("is not a trace"), "{error}");
}

#[test]
fn what_grows_as_no_trace_does_is_left() {
    let error = open(&packed(&text(), 512)).unwrap_err();
    assert!(error.to_string().contains("more than 1000 times its size"), "{error}");
    // The bound is on what grows to much, not on what is small.
    let small = open(&packed(&text(), 1)).unwrap();
    assert_eq!(small.len(), text().len() as u64 + (1 << 20));
}

#[test]
fn a_cut_stream_gives_what_came_before_and_says_so() {
    let whole = packed(&text().repeat(20), 0);
    let input = open(&whole[..whole.len() - 3]).unwrap();
    assert!(input.truncation().is_some());
    assert!(Input::open(Path::new("/nowhere")).is_err());
}
