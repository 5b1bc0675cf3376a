//! The first screen of a report answers eight questions in 24 lines of 100 columns. Each recording is a row of a table: the words that
//! answer each question.

mod common;

use common::{corpus, exitscope, stdout};
use exitscope_skips::{Part, Skipped, or_skip, skip};
use std::path::{Path, PathBuf};

const QUESTIONS: [&str; 8] = [
    "which VM and vCPU",
    "what costs most",
    "is that much",
    "which change",
    "what gain",
    "which risk",
    "how sure",
    "what was not seen",
];

/// The words that answer each of [`QUESTIONS`].
type Answers = [&'static [&'static str]; 8];

/// Of the corpus. Where a recording has one vCPU, or vCPUs that are alike, that is the answer.
const SCREENS: [(&str, Answers); 5] = [
    (
        "x86-svm/t2.data.gz",
        [
            &["qemu-system-x86 121", "2 vCPUs", "Worst vCPU none: cost takes 17.0% of each one's time"],
            &["Exits cost 17.0% of vCPU time; the costliest is io: PCI configuration (3.6%)"],
            &["Is that much? that is 0.33 CPUs, out of the host's 2 CPUs"],
            &["Best change [1] Keep other tasks off the vCPUs' CPUs"],
            &["Gain up to 6.1% of all vCPUs' time"],
            &["Risk the tasks that are kept off these CPUs have fewer CPUs left"],
            &["How sure? no part of vCPU time is unknown or lost"],
            &["Not seen idle states, frequencies and SMT siblings of the host"],
        ],
    ),
    (
        "x86-svm/t4-none.dat.gz",
        [
            &["VM without a name", "Worst vCPU 0: cost takes 47.4% of its time, 18.6% of the other's"],
            &["Exits cost 33.4% of vCPU time; the costliest is msr: IPIs (15.0%)"],
            &["Is that much? that is 0.65 CPUs, out of the 2 CPUs that the vCPUs can use"],
            &["Best change [1] Give the guest fewer vCPUs, to send fewer interrupts"],
            &["Gain up to 15.0% of its vCPUs' time"],
            &["Risk none known"],
            &["How sure? the <0.1% of vCPU time that is unknown or lost cannot change it"],
            &["Not seen what user space does in its part of exits; idle states, frequencies"],
        ],
    ),
    (
        "arm64/arm.dat.gz",
        [
            &["VM without a name", "Worst vCPU none: cost and steal take 45.5% to 46.6% of each one's time"],
            &["the costliest is DABT_LOW: MMIO page 0x9000000 (32.4%)"],
            &["Is that much? that is 0.92 CPUs, out of the 2 CPUs that the vCPUs can use"],
            &["Best change [1] Replace the device behind MMIO page 0x9000000"],
            &["Gain up to about 31.7% of its vCPUs' time"],
            &["Risk the guest needs a driver for the other device"],
            &["Doubtful 16.8% of vCPU time is in halts that are not divided; steal was not recorded"],
            &["Not seen steal; what halts consist of; overcommit", "SMT siblings of the host"],
        ],
    ),
    (
        "xen/pvh1_hvm.xentrace.gz",
        [
            &["VM without a name · 1 vCPU"],
            &["take 22.0% of vCPU time; most likely vCPUs are halted most of the time"],
            &["Is that much? exits cost 0.22 CPUs, out of the one CPU that its vCPU can use"],
            &["Best change [1] Find out what polls the missing serial port"],
            &["Gain up to 1.6% of its vCPUs' time"],
            &["Risk none"],
            &["Doubtful 67.7% of vCPU time is in halts that no event divides", "record with `xentrace -D"],
            &["Not seen steal; which exits go on to user space; what halts consist of; overcommit"],
        ],
    ),
    (
        "xen/pvh2_contend_sched_hvm.xentrace.gz",
        [
            &["domain 3 · 2 vCPUs", "Worst vCPU none: steal takes 19.8% to 21.3% of each one's time"],
            &["vCPUs wait for a CPU 20.6% of their time", "exits cost 7.4%"],
            &["Is that much? on average 0.41 of 2 vCPUs wait for a CPU"],
            &["Best change [1] Give these VMs more CPUs, or fewer vCPUs"],
            &["Gain up to 20.6% of all vCPUs' time"],
            &["Risk other VMs have fewer CPUs left"],
            &["Doubtful 17.9% of vCPU time is unknown"],
            &["Coverage: 40,275 events, none lost, 2 notes More:"],
        ],
    ),
];

/// Beside the checkout. No change is advised, so that neither gain nor risk is there.
const SHARED: (&str, Answers) = (
    "public/hip24-pair-host.trace.dat.xz",
    [
        &["at least 2 VMs without names", "Worst vCPU none: cost and steal take <0.1% to 0.2% of each one's time"],
        &["take 0.1% of vCPU time; most likely vCPUs are halted most of the time"],
        &["Is that much? exits cost 0.002 CPUs, out of the 3 CPUs that the vCPUs can use"],
        &["Change none is advised"],
        &["Change none is advised"],
        &["Change none is advised"],
        &["Doubtful 98.6% of vCPU time is in halts that no event divides", "sleep 10`)"],
        &["Not seen steal; which exits go on to user space; what halts consist of", "host halt polling"],
    ],
);

/// What `xl info` said of the Xen host.
const TSC_HZ: &str = "2596120000";

fn report(recording: &Path, columns: &str, flags: &[&str]) -> String {
    let mut command = exitscope();
    // The screen names the file as it was given: what it needs depends on no checkout's place.
    command.current_dir(recording.parent().unwrap());
    command.env("COLUMNS", columns).arg("report").arg(recording.file_name().unwrap()).args(flags);
    if recording.to_string_lossy().contains(".xentrace") {
        command.args(["--tsc-hz", TSC_HZ]);
    }
    stdout(&command.output().unwrap())
}

/// A recording that may not be published, beside the checkout.
fn shared(path: &str) -> Result<PathBuf, Skipped> {
    let found = common::root().canonicalize().unwrap();
    let found = found.ancestors().map(|dir| dir.join("shared/traces").join(path)).find(|path| path.is_file());
    found.ok_or_else(|| skip(Part::SharedTraces, format!("{path} is not beside the checkout")))
}

fn assert_answers(name: &str, screen: &str, answers: &Answers) {
    let lines: Vec<&str> = screen.lines().collect();
    assert!(lines.len() <= 24, "{name}: {} lines\n{screen}", lines.len());
    assert!(lines.iter().all(|line| line.chars().count() <= 100), "{name}\n{screen}");
    assert!(!screen.contains('…'), "{name}: something is cut\n{screen}");
    let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    for (question, answer) in QUESTIONS.iter().zip(answers) {
        assert!(!answer.is_empty(), "{name}: no answer to {question:?}");
        for part in *answer {
            assert!(words.contains(part), "{name}: {question}? {part:?} is not on\n{screen}");
        }
    }
}

#[test]
fn each_question_is_answered_on_the_first_screen_of_each_recording() {
    for (name, answers) in &SCREENS {
        assert_answers(name, &report(&corpus(name), "100", &[]), answers);
    }
}

#[test]
fn each_question_is_answered_on_the_first_screen_of_a_shared_recording() {
    let packed = or_skip!(shared(SHARED.0));
    let unpacked = Path::new(env!("CARGO_TARGET_TMPDIR")).join("first-screen-hip24.dat");
    let output = std::process::Command::new("xz").args(["-dc"]).arg(&packed).output().unwrap();
    std::fs::write(&unpacked, output.stdout).unwrap();
    assert_answers(SHARED.0, &report(&unpacked, "100", &[]), &SHARED.1);
}

/// A share of vCPU time in a row of the table of causes.
fn share(row: &str) -> f64 {
    let share = row.split_whitespace().find_map(|word| word.strip_suffix('%')).unwrap_or_else(|| panic!("{row}"));
    share.trim_start_matches('<').parse().unwrap()
}

#[test]
fn causes_and_the_row_of_others_add_up_to_all_but_what_guests_ran_and_were_kept_from() {
    for (name, _) in SCREENS {
        let screen = report(&corpus(name), "100", &[]);
        let rows: Vec<&str> = screen.lines().skip_while(|line| !line.starts_with("cause")).skip(1).collect();
        let end = rows.iter().position(|row| row.starts_with("other ")).unwrap_or_else(|| panic!("{name}\n{screen}"));
        let sum: f64 = rows[..=end].iter().map(|row| share(row)).sum();
        let legend = screen.split_whitespace().collect::<Vec<_>>().join(" ");
        let part = |part: &str| {
            let (_, rest) = legend.split_once(&format!(" {part} "))?;
            rest.split_whitespace().next()?.strip_suffix('%')?.trim_start_matches('<').parse::<f64>().ok()
        };
        let parts = ["kernel", "Xen", "user space", "device model", "polling", "steal", "halt, not divided", "unknown"];
        let whole: f64 = parts.iter().filter_map(|name| part(&format!("{} {name}", mark(name)))).sum();
        // Each is rounded to a tenth.
        assert!((sum - whole).abs() <= 0.1 * (end + parts.len()) as f64 / 2.0, "{name}: {sum} of {whole}\n{screen}");
    }
}

/// What the bar draws a part with.
fn mark(part: &str) -> char {
    match part {
        "kernel" | "Xen" => '▓',
        "user space" | "device model" => '▒',
        "polling" => '◦',
        "steal" => '░',
        "halt, not divided" => '-',
        _ => '?',
    }
}

#[test]
fn a_wide_terminal_has_more_rows_side_by_side() {
    let (narrow, wide) = ["100", "200"].map(|columns| report(&corpus("x86-svm/t2.data.gz"), columns, &[])).into();
    let beside = |screen: &str| screen.lines().any(|line| line.starts_with("cause") && line.contains("slowest"));
    assert!(beside(&wide) && !beside(&narrow), "{wide}");
    assert!(wide.lines().count() <= 24 && wide.lines().any(|line| line.chars().count() > 150), "{wide}");
}

#[test]
fn a_mail_has_the_answer_in_72_columns_of_ascii() {
    for (name, _) in SCREENS {
        let mail = report(&corpus(name), "200", &["--mail"]);
        assert!(mail.is_ascii() && !mail.contains('\u{1b}'), "{name}\n{mail}");
        // The command is copied whole.
        let is_short = |line: &str| line.len() <= 72 || line.contains(name.rsplit('/').next().unwrap());
        assert!(mail.lines().all(is_short), "{name}\n{mail}");
        for part in ["Host ", "Kernel ", "Command ", "cause ", "guest ", "exitscope report "] {
            assert!(mail.contains(part), "{name}: {part}\n{mail}");
        }
    }
    let mail = report(&corpus("x86-svm/t2.data.gz"), "200", &["--mail"]);
    assert!(mail.starts_with("Exits cost 17.0% of vCPU time; the costliest is io: PCI configuration"), "{mail}");
}
