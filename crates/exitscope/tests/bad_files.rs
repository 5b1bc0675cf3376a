//! Files that are no recording, given to every command that reads one: the error names the file once.

mod common;

use common::server::Server;
use common::{corpus, exitscope, stderr, unpacked};
use std::path::{Path, PathBuf};

/// A name that no other part of an error has.
const NAME: &str = "bad.file";

/// Files that are no recording, and one of which nothing can be read but its header, each in a folder of its own.
fn bad_files(folder: &Path) -> Vec<(&'static str, PathBuf)> {
    let whole = unpacked("x86-svm/t2.data.gz");
    let log = std::fs::read(corpus("xen/pvh1_hvm.xentrace.gz")).unwrap();
    let rubbish: Vec<u8> = (0..4_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let gz_head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, &rubbish).unwrap();
    let kinds: [(&str, Option<Vec<u8>>); 10] = [
        ("missing", None),
        ("directory", None),
        ("empty", Some(Vec::new())),
        ("text", Some(b"Dear all,\nthis is no trace.\n".to_vec())),
        ("cut header", Some(whole[..60].to_vec())),
        ("cut", Some(whole[..3_000].to_vec())),
        ("broken gz", Some([&gz_head[..], &rubbish].concat())),
        ("gz of rubbish", Some(packed.finish().unwrap())),
        ("cut gz", Some(log[..300].to_vec())),
        ("xentrace log without a clock", Some(log)),
    ];
    let place = |(kind, bytes): (&'static str, Option<Vec<u8>>)| {
        let own = folder.join(kind.replace(' ', "-"));
        std::fs::create_dir(&own).unwrap();
        let path = own.join(NAME);
        match bytes {
            Some(bytes) => std::fs::write(&path, bytes).unwrap(),
            None if kind == "directory" => std::fs::create_dir(&path).unwrap(),
            None => {}
        }
        (kind, path)
    };
    kinds.into_iter().map(place).collect()
}

/// The commands that read a recording; `FILE` stands for it, `GOOD` for another one, `NEW` for a file that may be written.
const COMMANDS: &[&[&str]] = &[
    &["report", "FILE"],
    &["report", "GOOD", "FILE"],
    &["report", "FILE", "--format", "json"],
    &["report", "FILE", "--format", "csv"],
    &["report", "FILE", "--html", "NEW"],
    &["report", "FILE", "--bundle", "NEW"],
    &["report", "FILE", "--reason", "io"],
    &["report", "FILE", "--vm", "web"],
    &["report", "GOOD", "--hidden", "FILE"],
    &["report", "GOOD", "--devices", "FILE"],
    &["report", "GOOD", "--by", "rip", "--guestkallsyms", "FILE"],
    &["events", "FILE"],
    &["diff", "FILE", "FILE"],
    &["diff", "GOOD", "FILE"],
    &["diff", "FILE", "GOOD"],
    &["export", "FILE", "--format", "csv"],
    &["export", "FILE", "--format", "perfetto", "-o", "NEW"],
    &["advise", "FILE"],
    &["replay", "FILE", "--policy", "host_halt_poll"],
    &["replay", "FILE", "--policy", "port_path"],
    &["sim", "FILE"],
    &["sweep", "FILE", "--vary", "halt_poll_ns=0,1"],
    #[cfg(feature = "store")]
    &["store", "add", "NEW", "FILE"],
    #[cfg(feature = "store")]
    &["store", "list", "FILE"],
    #[cfg(feature = "sql")]
    &["sql", "FILE", "select 1"],
];

/// The error names the file once. The file that would go with a log of Xen's has another name.
fn assert_named_once(said: &str, path: &Path, what: &str) {
    let alone = said.replace(" bad.file.xl-info ", "");
    assert_eq!((said.matches(path.to_str().unwrap()).count(), alone.matches(NAME).count()), (1, 1), "{what}: {said}");
}

#[test]
fn a_file_that_is_refused_is_named_once() {
    let folder = tempfile::tempdir().unwrap();
    let good = corpus("x86-svm/t4-kvmstat.data.gz");
    for (kind, path) in bad_files(folder.path()) {
        for (at, command) in COMMANDS.iter().enumerate() {
            let new = folder.path().join(format!("new-{at}"));
            let words = command.iter().map(|word| match *word {
                "FILE" => path.as_os_str(),
                "GOOD" => good.as_os_str(),
                "NEW" => new.as_os_str(),
                word => word.as_ref(),
            });
            let output = exitscope().args(words).output().unwrap();
            let (said, what) = (stderr(&output), format!("{command:?}, {kind}"));
            // A report, and the list of events, say what there is of a recording that is cut.
            let is_read = kind == "cut" && matches!(command[0], "report" | "events") && !command.contains(&"--bundle");
            // A store is a folder.
            let is_store = matches!(command[..], ["store", "list", ..] | ["sql", ..]);
            if !is_read {
                assert_eq!(output.status.code(), Some(2), "{what}: {said}");
            }
            if output.status.code() == Some(2) && !(is_store && kind == "directory") {
                assert_named_once(&said, &path, &what);
            }
        }
    }
}

#[test]
fn a_page_of_a_file_that_cannot_be_read_names_it_once() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, path) in bad_files(folder.path()) {
        let said = match Server::start(&[path.to_str().unwrap()]) {
            Err(said) => said,
            Ok(_) if kind == "cut" => continue,
            Ok(server) => {
                let (head, body) = server.get("/data/0");
                assert!(head.starts_with("HTTP/1.1 422 "), "{kind}: {head}");
                String::from_utf8(body).unwrap()
            }
        };
        assert_named_once(&said, &path, kind);
    }
}
