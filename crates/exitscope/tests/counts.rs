//! `report`, `advise` and `diff` of texts of counts: screens of z/VM's Performance Toolkit, counters of Linux on s390, tables of exits.

mod common;

use common::{check_json, exitscope, root, stderr, stdout};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    root().join("crates/trace/tests/fixtures/counts").join(name)
}

fn said(command: &str, files: &[&Path], flags: &[&str]) -> String {
    let output = exitscope().arg(command).args(files).args(flags).output().unwrap();
    assert!(output.status.success(), "{command} {flags:?}: {}", stderr(&output));
    stdout(&output)
}

fn value(command: &str, files: &[&Path], schema: &str) -> Value {
    let value = serde_json::from_str(&said(command, files, &["--format", "json"])).unwrap();
    check_json(schema, [&value]);
    value
}

fn refused(command: &str, files: &[&Path], flags: &[&str]) -> String {
    let output = exitscope().arg(command).args(files).args(flags).output().unwrap();
    assert!(!output.status.success() && output.stdout.is_empty(), "{command} {flags:?}");
    stderr(&output)
}

#[test]
fn a_screen_is_reported_with_its_counts_and_rates_and_without_exits() {
    let screen = fixture("fcx102.txt");
    let text = said("report", &[&screen], &["--view", "yield"]);
    assert_eq!(text, said("report", &[&screen], &[]), "there is nothing else to see");
    for has in [
        "not events: they do not show which vCPU yielded",
        "FCX102 (z/VM Performance Toolkit, SYSTEM), CPU 2817 SER 0A1B2, 10:00:30 - 10:01:30 (60.0s)",
        "X'44' on the fast path (no virtual processor queued)      43,200",
        "95,520     1,592",
        "1 thing to do: `exitscope advise`",
    ] {
        assert!(text.contains(has), "{has}: {text}");
    }
    // What is on no screen is no zero, and no share is made up.
    assert!(!text.contains('%') && !text.contains("0 exits"), "{text}");
    let report = value("report", &[&screen], "counts");
    let counts = &report["counts"][0];
    assert_eq!((&counts["source"], &counts["span_ns"]), (&json!("fcx102"), &json!(60_000_000_000_u64)));
    assert_eq!(counts["counts"][4]["per_s"], 1_592.0);
    assert!(counts.get("fast_share").is_none() && counts.get("named_share").is_none(), "{counts}");
    assert_eq!(report["coverage"], json!([]));
}

#[test]
fn what_screens_advise_has_no_gain_in_figures_and_says_what_is_not_judged() {
    let text = said("advise", &[&fixture("fcx102.txt")], &[]);
    for has in [
        "1. For FCX102 (z/VM Performance Toolkit, SYSTEM), CPU 2817 SER 0A1B2",
        "name a virtual processor that is dispatched already",
        "Gain: not known from counts",
        "1,592/s",
        "93.6%",
        "IBM expects no gain from X'9C' where processors are not short",
        "FCX104 (PRIVOP) has all X'44', but exitscope does not read that report",
        "FCX144 (PROCLOG) has it, but exitscope does not read that report",
    ] {
        assert!(text.contains(has), "{has}: {text}");
    }
    let missing = value("report", &[&fixture("fcx102.txt")], "counts");
    assert_eq!(missing["counts"][0]["missing"], json!([]));
    let after = value("advise", &[&fixture("fcx102-after.txt")], "counts");
    assert_eq!(after["advice"], json!([]), "175 a second are few");
    let whole = value("advise", &[&fixture("fcx102.txt")], "counts");
    assert_eq!(whole["advice"][0]["rule"], "yield_later");
    assert_eq!(whole, value("report", &[&fixture("fcx102.txt")], "counts"), "one layout for both");
}

#[test]
fn counters_of_linux_have_rates_shares_and_their_spin_retry() {
    let linux = fixture("linux.txt");
    let report = value("report", &[&linux], "counts");
    let [guest, vm] = &report["counts"].as_array().unwrap()[..] else { panic!("{report}") };
    assert_eq!(
        (&guest["source"], &guest["spin_retry"], &guest["since_start"]),
        (&json!("diag_stat"), &json!(0), &json!(false))
    );
    assert_eq!((&guest["counts"][1]["count"], &guest["counts"][1]["per_s"]), (&json!(20_000), &json!(2_000.0)));
    assert_eq!(
        (&vm["system"], &vm["ignored_share"], &vm["named_share"]),
        (&json!("4711-15"), &json!(0.9), &json!(0.1))
    );
    let rules: Vec<_> = report["advice"].as_array().unwrap().iter().map(|row| (&row["rule"], &row["of"])).collect();
    assert_eq!(rules, [(&json!("spin_retry"), &json!(1)), (&json!("name_holder"), &json!(2))]);
    let text = said("advise", &[&linux], &[]);
    for has in [
        "guest: spin_retry=1000 in /proc/sys/kernel/spin_retry",
        "2 to 12 % more throughput",
        "X'44', which names nobody, a second: 900/s",
        "Not judged",
    ] {
        assert!(text.contains(has), "{has}: {text}");
    }
}

#[test]
fn both_sides_of_a_change_are_compared_by_their_rates() {
    let [before, after] = ["fcx102.txt", "fcx102-after.txt"].map(fixture);
    let comparison = value("diff", &[&before, &after], "counts-diff");
    let changes = comparison["systems"][0]["changes"].as_array().unwrap();
    let dispatched = changes.iter().find(|row| row["counter"] == "diag_9c_already_dispatched").unwrap();
    assert_eq!((&dispatched["before_per_s"], &dispatched["after_per_s"]), (&json!(1_592.0), &json!(175.0)));
    let text = said("diff", &[&before, &after], &[]);
    let words: Vec<_> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for has in ["no change is judged", "dispatched already 1,592 175 -89.0%", "before: FCX102", "107 107 0.0%"] {
        assert!(words.iter().any(|line| line.contains(has)), "{has}: {text}");
    }
    let other = value("diff", &[&before, &fixture("linux.txt")], "counts-diff");
    assert_eq!((other["systems"].as_array().unwrap().len(), other["not_compared"].as_array().unwrap().len()), (0, 3));
}

#[test]
fn damage_is_told_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let cut = folder.path().join("cut.txt");
    let text = std::fs::read_to_string(fixture("fcx102.txt")).unwrap();
    std::fs::write(&cut, text.replace("  95520   1592", "  95520")).unwrap();
    let said = said("report", &[&cut], &[]);
    assert!(said.contains("Lines of a text trace that could not be understood"), "{said}");
    assert!(!said.contains("dispatched already"), "{said}");
    assert!(said.contains("not in the text, which is not zero: Diag.X'9C', Alr.Dispat."), "{said}");
    assert_eq!(value("report", &[&cut], "counts")["coverage"][0]["first_at"], 8);
}

#[test]
fn what_counts_do_not_have_is_refused() {
    let screen = fixture("fcx102.txt");
    let trace = root().join("corpus/x86-svm/t2.data.gz");
    for (command, files, flags, why) in [
        ("report", vec![screen.as_path()], vec!["--by", "vcpu"], "counts hold no single exits: omit --by"),
        ("report", vec![&screen], vec!["--view", "halt"], "views other than yield"),
        ("report", vec![&screen], vec!["--format", "csv"], "--format csv"),
        ("report", vec![&screen], vec!["--vcpu", "1", "--fail-on", "lost>0"], "a selection, --fail-on"),
        ("report", vec![&screen, &trace], vec![], "read them apart"),
        ("advise", vec![&screen], vec!["--as", "libvirt"], "--as"),
        ("diff", vec![&screen, &trace], vec![], "they have nothing in common"),
        ("export", vec![&screen], vec!["--format", "csv"], "holds counts and no events"),
        ("events", vec![&screen], vec![], "holds counts and no events"),
    ] {
        let said = refused(command, &files, &flags);
        assert!(said.contains(why), "{command} {flags:?}: {said}");
    }
}

#[test]
fn a_pasted_table_ends_in_an_answer_and_in_one_command() {
    for (file, answers) in [
        (
            "mail-perf-kvm-stat.txt",
            &[
                "Costs most: IO_INSTRUCTION, 98.9% of the time of exits but halts",
                "Halts (HLT) are 17.8% of the time",
                "Exits but halts take at most 82.3% of the vCPUs' time, if no event was lost",
                "which ports",
            ][..],
        ),
        (
            "old-perf-kvm-stat.txt",
            &[
                "Costs most: npf, 65.4%",
                "Halts (hlt) are 96.2%",
                "Exits but halts take at most 3.8% of the vCPUs' time",
                "touch memory",
            ],
        ),
        (
            "kvm-stat.txt",
            &["Comes most often: IO_INSTRUCTION, 79.8% of 251,812 exits, 63,000 a second", "About 126,011 of 251,812"],
        ),
        ("perf-stat.txt", &["kvm_msr", "335,750", "About 17,431 of 3,358,451 exits (0.5%) went on in user space"]),
        ("kvmexit.txt", &["Most often of the rows in the text: MSR_WRITE, 75.1% of 426,043 exits", "which MSRs"]),
    ] {
        let text = said("report", &[&fixture(file)], &[]);
        let commands = text.matches("Record next: `exitscope record --for 10s`").count();
        assert_eq!(commands, 1, "{file}: {text}");
        for answer in answers {
            assert!(text.contains(answer), "{file}: {answer}: {text}");
        }
        // No setting, no gain, and no subject that the table lacks.
        let advice = said("advise", &[&fixture(file)], &[]);
        assert!(advice.contains("No setting is advised by a table of exits"), "{advice}");
        let report = value("report", &[&fixture(file)], "counts");
        assert_eq!((report["advice"].as_array().unwrap().len(), report["tables"].as_array().unwrap().len()), (0, 1));
    }
    // Without times nothing costs.
    let text = said("report", &[&fixture("kvm-stat.txt")], &[]);
    assert!(!text.contains("Costs most") && text.contains("what exits cost: the table has no times"), "{text}");
}

/// Five lines from a mail give what they give.
#[test]
fn lines_of_a_trace_without_time_or_thread_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    for (name, before) in [("no-time.txt", "> "), ("no-thread.txt", "> [001] 87.534190: ")] {
        let events = [
            "kvm_exit: reason IO_INSTRUCTION rip 0xfff info 3f80008 0",
            "kvm_pio: pio_write at 0x3f8 size 1 count 1 val 0x41",
            "kvm_entry: vcpu 0, rip 0xfff0",
            "kvm_exit: reason HLT rip 0xfff info 0 0",
            "kvm_exit: reason IO_INSTRUCTION rip 0xfff info 3f80008 0",
        ];
        let file = folder.path().join(name);
        std::fs::write(&file, events.map(|event| format!("{before}{event}\n")).concat()).unwrap();
        let text = said("report", &[&file], &[]);
        for has in [
            "Most often of the rows in the text: IO_INSTRUCTION, 66.7% of 3 exits",
            "which thread and when: the lines lack the columns",
            "Record next: `exitscope record",
        ] {
            assert!(text.contains(has), "{name}: {has}: {text}");
        }
    }
}

/// The page of a pasted table has what the text has, and loads nothing.
#[test]
fn a_pasted_table_has_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("page.html");
    let table = fixture("mail-perf-kvm-stat.txt");
    let output = exitscope().arg("report").arg(&table).arg("--html").arg(&to).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let page = std::fs::read_to_string(&to).unwrap();
    for has in ["Costs most: IO_INSTRUCTION, 98.9%", "<td class=\"name\">HLT</td>", "Record next: `exitscope record"] {
        assert!(page.contains(has), "{has}: {page}");
    }
    for not in ["<script", "http:", "https:", "src="] {
        assert!(!page.contains(not), "{not}");
    }
    let over = exitscope().arg("report").arg(&table).arg("--html").arg(&table).output().unwrap();
    assert!(!over.status.success() && stderr(&over).contains("--html"), "{}", stderr(&over));
}

/// Where exits and entries name their vCPU, lines without a thread are paired by it, and it is said that one VM is assumed.
#[test]
fn lines_with_times_and_no_thread_are_paired_by_the_number_of_their_vcpu() {
    let folder = tempfile::tempdir().unwrap();
    let lines = [
        "[001] 87.534190: kvm_exit: vcpu 0 reason IO_INSTRUCTION rip 0xfff info1 0x3f80008 info2 0x0",
        "[001] 87.534191: kvm_pio: pio_write at 0x3f8 size 1 count 1 val 0x41",
        "[002] 87.534192: kvm_exit: vcpu 1 reason CPUID rip 0xfff info1 0x0 info2 0x0",
        "[002] 87.534195: kvm_entry: vcpu 1, rip 0xfff0",
        "[001] 87.534200: kvm_entry: vcpu 0, rip 0xfff0",
        "[001] 87.534300: kvm_exit: vcpu 0 reason HLT rip 0xfff info1 0x0 info2 0x0",
    ];
    let read = |name: &str, lines: &[String]| -> Value {
        let file = folder.path().join(name);
        std::fs::write(&file, lines.concat()).unwrap();
        let output = exitscope().args(["report", "--format", "json"]).arg(&file).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{name}: {}", stderr(&output)))
    };
    for (name, mark) in [("plain.txt", ""), ("quoted.txt", "> ")] {
        let report = read(name, &lines.map(|line| format!("{mark}{line}\n")));
        let rows = report["rows"].as_array().unwrap();
        let row = |reason: &str| rows.iter().find(|row| row["reason"] == reason).unwrap();
        assert_eq!(
            (&row("IO_INSTRUCTION")["exit_time_ns"], &row("CPUID")["exit_time_ns"]),
            (&json!(10_000), &json!(3_000))
        );
        assert_eq!(report["subjects"][0]["subject_key"], 0x3f8, "{report}");
        let said = report["coverage"]["lines"].as_array().unwrap().iter().any(|line| line["id"] == "paired_by_vcpu");
        assert!(said, "{}", report["coverage"]);
    }
    // Kernels before 5.10 do not print it with exits: then they are counted alone.
    let old = read(
        "old.txt",
        &lines.map(|line| {
            format!("{}\n", line.replace("kvm_exit: vcpu 0", "kvm_exit:").replace("kvm_exit: vcpu 1", "kvm_exit:"))
        }),
    );
    assert_eq!(old["tables"][0]["exits"], 3, "{old}");
}

/// `perf stat` of a guest that tells what it did (tiny-guest --repeat 101 in the rig, Linux 6.1): out 2323 in 1717 mmio_write 1313 hlt
/// 101 are 5454 returns to user space. Half of the events kvm_fpu are as many.
#[test]
fn returns_to_user_space_are_half_of_kvm_fpu() {
    let file = fixture("rig-perf-stat.txt");
    let text = said("report", &[&file], &[]);
    assert!(text.contains("Comes most often: kvm_pio, 73.8% of 5,473 exits"), "{text}");
    assert!(text.contains("5,454 of 5,473 exits (99.7%) went on in user space\n"), "{text}");
    let folder = tempfile::tempdir().unwrap();
    let without = folder.path().join("without.txt");
    let whole = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&without, whole.replace("kvm:kvm_userspace_exit", "kvm:kvm_set_irq")).unwrap();
    let text = said("report", &[&without], &[]);
    assert!(text.contains("About 5,454 of 5,473 exits (99.7%) went on in user space: kvm_fpu comes twice"), "{text}");
}

#[test]
fn tables_of_both_sides_are_beside_each_other_and_not_judged() {
    let [before, after] = ["kvm-stat.txt", "kvm-stat-after.txt"].map(fixture);
    let text = said("diff", &[&before, &after], &[]);
    let words: Vec<_> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for has in [
        "no change is judged",
        "kvm_exit(IO_INSTRUCTION) 201,000 6,110 63,000 1,980",
        "kvm_exit(EXTERNAL_INTERRUPT) - 33,120 - 10,702",
    ] {
        assert!(words.iter().any(|line| line.contains(has)), "{has}: {text}");
    }
    let comparison = value("diff", &[&before, &after], "counts-diff");
    assert_eq!(comparison["tables"][0]["rows"].as_array().unwrap().len(), 6);
    let alone = value("diff", &[&before, &fixture("kvmexit.txt")], "counts-diff");
    assert_eq!(alone["tables_not_compared"], json!(["kvm_stat", "kvmexit"]));
}

/// A run of kvm-unit-tests' vmexit has cycles and no counts: nothing of a guest's exits is said, and two runs are put side by side.
#[test]
fn a_run_of_vmexit_is_answered_and_compared_and_not_taken_for_counts() {
    let run = fixture("vmexit.txt");
    let text = said("report", &[&run], &[]);
    for has in [
        "1 run of kvm-unit-tests' vmexit: cycles an operation, neither counts nor events",
        "Takes longest: vmcall, 940,754 cycles; the guest makes a hypercall",
        "A port that QEMU answers takes 373,139 cycles more than one that the kernel answers",
        "how often any guest does this",
        "Record next: `exitscope record --for 10s`",
        "No setting is advised by cycles an operation",
    ] {
        assert!(text.contains(has), "{has}: {text}");
    }
    assert!(!text.contains("exits,") && !text.contains('%') && !text.contains("Costs most"), "{text}");
    assert!(said("advise", &[&run], &[]).contains("No setting is advised by cycles an operation"));
    let report = value("report", &[&run], "counts");
    assert_eq!((&report["tables"], &report["advice"]), (&json!([]), &json!([])));
    assert_eq!(report["operations"][0]["way_to_user_space_cycles"], 373_139);
    let folder = tempfile::tempdir().unwrap();
    let after = folder.path().join("after.txt");
    std::fs::write(&after, std::fs::read_to_string(&run).unwrap().replace("cpuid 331239", "cpuid 165620")).unwrap();
    let text = said("diff", &[&run, &after], &[]);
    let words: Vec<_> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for has in ["cpuid 331,239 165,620 -50.0%", "vmcall 940,754 940,754 0.0%", "no change is judged"] {
        assert!(words.iter().any(|line| line.contains(has)), "{has}: {text}");
    }
    let comparison = value("diff", &[&run, &after], "counts-diff");
    assert_eq!(comparison["operations"][0]["rows"][0]["cycles"], json!({ "before": 331_239, "after": 165_620 }));
    let alone = value("diff", &[&run, &fixture("kvmexit.txt")], "counts-diff");
    assert_eq!((&alone["operations_not_compared"], &alone["tables_not_compared"]), (&json!(1), &json!(["kvmexit"])));
}

/// Answers of QEMU's machine protocol, as a real one gave them, twice: two readings, which are not added up.
#[test]
fn answers_to_query_stats_are_reported_by_reading() {
    let text = said("report", &[&fixture("query-stats.json")], &[]);
    for has in ["2 tables of exits", "KVM's statistics", "1,603", "6,008", "Record next: `exitscope record"] {
        assert!(text.contains(has), "{has}: {text}");
    }
    assert!(!text.contains("Costs most"), "they have no times: {text}");
    let report = value("report", &[&fixture("query-stats.json")], "counts");
    let exits: Vec<_> = report["tables"].as_array().unwrap().iter().map(|table| &table["exits"]).collect();
    assert_eq!(exits, [&json!(1_603), &json!(6_008)]);
}

/// perf's table of a recording has perf's counts, and they are those of the recording itself, reason by reason.
#[test]
fn a_table_that_perf_made_of_a_recording_has_the_recordings_counts() {
    for (table, recording) in [
        ("t4-callchain.data.perf-kvm-stat.txt", "t4-callchain.data.gz"),
        ("t4-kvmstat.data.perf-kvm-stat.txt", "t4-kvmstat.data.gz"),
    ] {
        let printed = root().join("corpus/x86-svm/peers").join(table);
        let table = value("report", &[&printed], "counts");
        let output = exitscope()
            .args(["report", "--format", "json"])
            .arg(root().join("corpus/x86-svm").join(recording))
            .output()
            .unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let rows = report["rows"].as_array().unwrap();
        for row in table["tables"][0]["rows"].as_array().unwrap() {
            let own =
                rows.iter().find(|own| own["reason"] == row["key"]).unwrap_or_else(|| panic!("{recording}: {row}"));
            assert_eq!(own["timed"], row["count"], "{recording}: {row}");
            let [least, most] = [0, 1].map(|at| row["time_ns"][at].as_u64().unwrap());
            let time = own["exit_time_ns"].as_u64().unwrap();
            assert!((least..=most).contains(&time), "{recording}: {time} of {row}");
        }
    }
}

/// What a table bounds is true of the recording that it was made of: exits but halts take no more of the vCPUs' time.
#[test]
fn the_bound_that_a_table_gives_holds_for_its_recording() {
    let mut bounded = 0;
    for (table, recording) in [
        ("x86-svm/peers/t2.data.perf-kvm-stat.txt", "x86-svm/t2.data.gz"),
        ("x86-svm/peers/t4-callchain.data.perf-kvm-stat.txt", "x86-svm/t4-callchain.data.gz"),
        ("x86-svm/peers/t4-kvmstat.data.perf-kvm-stat.txt", "x86-svm/t4-kvmstat.data.gz"),
    ] {
        let table = value("report", &[&root().join("corpus").join(table)], "counts")["tables"][0].clone();
        let output = exitscope()
            .args(["report", "--format", "json"])
            .arg(root().join("corpus").join(recording))
            .output()
            .unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let sum = |rows: &Value, name: &str, is_of: &dyn Fn(&Value) -> bool| -> u64 {
            let rows = rows.as_array().unwrap().iter().filter(|row| is_of(row));
            rows.map(|row| row[name].as_u64().unwrap()).sum()
        };
        let is_halt = |row: &Value| row["reason"] == "hlt";
        let exits = sum(&report["rows"], "exit_time_ns", &|row| !is_halt(row));
        let halts = sum(&report["rows"], "exit_time_ns", &is_halt);
        let vcpus = sum(&report["vcpus"], "span_ns", &|_| true);
        let Some(bound) = table["exits_at_most"].as_f64() else {
            assert_eq!(halts, 0, "{recording}: {table}");
            continue;
        };
        bounded += 1;
        let (part, of_exits) = (exits as f64 / vcpus as f64, exits as f64 / (exits + halts) as f64);
        assert!(part <= bound, "{recording}: {part} of the vCPUs' time, {bound} at most");
        // perf divides exits in the same way: the bound is their part of all exits' time, and not more.
        assert!((bound - of_exits).abs() < 0.01, "{recording}: {bound}, and {of_exits}");
    }
    assert!(bounded >= 2, "{bounded}");
}

/// Two truncations of one paste give no different causes, only fewer, whichever form it has: at its end, within lines, and at its beginning.
/// Where nothing says whether rows are missing, what comes first is said of the rows in the text, and is no cause.
#[test]
fn a_cut_paste_names_no_other_reason_than_the_whole() {
    use exitscope_trace::{Input, counts::read};
    let named = |text: &[u8]| -> Vec<String> {
        let Ok(counted) = Input::from_bytes("pasted", text).and_then(|input| read(&input)) else { return Vec::new() };
        let of_table = |table| exitscope_advice::judge_exit_table(table).costliest.filter(|of| of.is_of_whole);
        counted.tables.iter().filter_map(of_table).map(|of| of.name).collect()
    };
    let (mut forms, mut with_cause) = (0, 0);
    let folder = fixture("");
    let xen = root().join("corpus/xen/pvh1_smallbuf_credit1.xenalyze-summary.txt");
    let peers = root().join("corpus/x86-svm/peers/t4-kvmstat.data.perf-kvm-stat.txt");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    for file in files.chain([xen, peers]) {
        let text = std::fs::read(&file).unwrap();
        let whole = named(&text);
        forms += 1;
        with_cause += u32::from(!whole.is_empty());
        let is_end_of_line = |end: &usize| text[*end] == b'\n';
        // Within lines, too, of those that are small.
        let step = if text.len() < 4_096 { 7 } else { 997 };
        for end in (0..text.len()).filter(|end| is_end_of_line(end) || end % step == 0) {
            for cut in [named(&text[..end]), named(&text[end..])] {
                assert!(cut.iter().all(|name| whole.contains(name)), "{} {end}: {cut:?}, {whole:?}", file.display());
            }
        }
    }
    assert!(forms >= 15 && with_cause >= 6, "{with_cause} of {forms}");
}

/// xenalyze's summary of a log has the counts of the log itself, and about its times.
#[test]
fn a_summary_of_xenalyze_has_the_logs_counts() {
    let folder = root().join("corpus/xen");
    let summary = folder.join("pvh2_contend_sched_hvm.xenalyze-summary.txt");
    let table = value("report", &[&summary], "counts")["tables"][0].clone();
    assert_eq!((&table["source"], &table["of"]), (&json!("xenalyze"), &json!("domain 3")));
    let log = folder.join("pvh2_contend_sched_hvm.xentrace.gz");
    let output = exitscope()
        .args(["report", "--vm", "3", "--format", "json", "--tsc-hz", "1000000000"])
        .arg(log)
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let own =
        |reason: &str| report["rows"].as_array().unwrap().iter().find(|row| row["reason"] == reason).cloned().unwrap();
    for (printed, reason) in
        [("VMEXIT_CPUID", "cpuid"), ("VMEXIT_IOIO", "io"), ("VMEXIT_NPF", "npf"), ("VMEXIT_HLT", "hlt")]
    {
        let row = table["rows"].as_array().unwrap().iter().find(|row| row["key"] == printed).unwrap();
        // xenalyze leaves out exits whose ends it did not see.
        let (count, all) = (row["count"].as_u64().unwrap(), own(reason)["count"].as_u64().unwrap());
        assert!(count <= all && all <= count + 2, "{reason}: {count} of {all}");
    }
    let text = said("report", &[&summary], &[]);
    assert!(text.contains("Halts (VMEXIT_HLT)"), "{text}");
    assert!(text.contains("Record next: `xentrace") && !text.contains("perf record"), "{text}");
}
