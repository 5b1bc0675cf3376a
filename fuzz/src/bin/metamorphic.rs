//! Prints what becomes of the account of recordings that are changed, and fails if that is more than the account may say.
//!
//! ```text
//! | recording | change | parts, in ms |
//! | t2.data.gz: 16,632 exits, 17,871.5 ms | without kvm:kvm_fpu | kernel -86.4, user space +86.4 |
//! ```

use anyhow::{Context, ensure};
use exitscope_fuzz::metamorphic::{Account, Case, Change, Recorded, cases};
use exitscope_fuzz::root;
use std::path::PathBuf;

fn main() -> anyhow::Result<()> {
    let mut paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    // Also what is left when one tracepoint is gone has each other one left out. Not of Xen: xentrace records run states as one class.
    // Nor of entries and exits: without both, it is a recording of another kind of host.
    let has_pairs = paths.first().is_some_and(|first| first.as_os_str() == "--pairs");
    paths.drain(..usize::from(has_pairs));
    if paths.is_empty() {
        paths = corpus()?;
    }
    println!("| recording | change | parts, in ms |\n| --- | --- | --- |");
    let (mut recordings, mut all, mut wrong) = (0, 0, Vec::new());
    for path in paths {
        let recorded = match Recorded::read(&path) {
            Ok(recorded) => recorded,
            Err(error) => {
                eprintln!("{}: {error:#}", path.display());
                continue;
            }
        };
        recordings += 1;
        let names = if has_pairs && !recorded.info.by_vcpu { recorded.tracepoints() } else { Default::default() };
        let is_kept = |name: &&str| {
            !["kvm:kvm_exit", "kvm:kvm_entry", "kvm_hv:kvm_guest_exit", "kvm_hv:kvm_guest_enter"].contains(name)
        };
        let names = names.into_iter().filter(|name| is_kept(&recorded.info.names.get(*name)));
        let less = names.map(|name| Recorded {
            name: format!("{} without {}", recorded.name, recorded.info.names.get(name)),
            ..recorded.without(name)
        });
        for recorded in std::iter::once(recorded.clone()).chain(less) {
            let (whole, cases) = cases(&recorded).with_context(|| path.display().to_string())?;
            all += cases.len();
            for case in cases {
                print(&recorded.name, &whole, &case);
                wrong.extend(case.wrong.iter().map(|wrong| format!("{}, {}: {wrong}", recorded.name, case.what)));
            }
        }
    }
    println!("\n{all} changes of {recordings} recordings, {} of which say what they must not", wrong.len());
    wrong.iter().for_each(|wrong| println!("WRONG: {wrong}"));
    ensure!(recordings > 0, "no recording could be read");
    ensure!(wrong.is_empty(), "the account is another one, not a less divided one");
    Ok(())
}

/// Every recording of the corpus.
fn corpus() -> anyhow::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for folder in ["arm64", "lab", "powerpc", "x86-svm", "xen"] {
        for entry in root().join("corpus").join(folder).read_dir()? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if [".data.gz", ".dat.gz", ".xentrace.gz", "ftrace.txt.gz"].iter().any(|end| name.ends_with(end)) {
                paths.push(path);
            }
        }
    }
    paths.sort();
    Ok(paths)
}

fn print(name: &str, whole: &Account, case: &Case) {
    let ms = |ns: u64| format!("{:.3}", ns as f64 / 1e6);
    let part = |change: &Change| {
        let more = (change.more > 0).then(|| format!(" +{}", ms(change.more)));
        let less = (change.less > 0).then(|| format!(" -{}", ms(change.less)));
        format!("{}{}{}", change.part.name(), more.unwrap_or_default(), less.unwrap_or_default())
    };
    let parts: Vec<String> = case.changes.iter().map(part).collect();
    if !parts.is_empty() {
        println!("| {name}: {} exits, {} ms | {} | {} |", whole.exits, ms(whole.wall()), case.what, parts.join(", "));
    }
}
