//! Which tracepoints are found in a folder that is laid out as tracefs is.

use super::*;

/// A tracepoint with fields of these names and sizes, after the common ones.
fn make(tracefs: &Path, event: &str, id: u32, fields: &[(&str, usize)]) {
    let (system, name) = event.split_once(':').unwrap();
    let mut text =
        format!("name: {name}\nID: {id}\nformat:\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n");
    let mut at = 8usize;
    for (field, size) in fields {
        at = at.next_multiple_of(*size);
        text += &format!("\tfield:u{} {field};\toffset:{at};\tsize:{size};\tsigned:0;\n", 8 * size);
        at += size;
    }
    let folder = tracefs.join("events").join(system).join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("format"), text + "\nprint fmt: \"\"\n").unwrap();
}

#[test]
fn those_that_are_wanted_and_there_are_found_in_the_order_in_which_they_are_wanted() {
    let tracefs = tempfile::tempdir().unwrap();
    make(tracefs.path(), "kvm:kvm_exit", 9, &[("exit_reason", 4), ("guest_rip", 8), ("isa", 4)]);
    make(tracefs.path(), "kvm:kvm_entry", 8, &[("vcpu_id", 4)]);
    make(tracefs.path(), "sched:sched_switch", 7, &[("prev_pid", 4), ("prev_state", 8), ("next_pid", 4)]);
    make(tracefs.path(), "other:kvm_exit", 6, &[]);
    fs::create_dir_all(tracefs.path().join("events/kvm/kvm_pio")).unwrap();
    fs::create_dir_all(tracefs.path().join("events/kvm/kvm_msr")).unwrap();
    fs::write(tracefs.path().join("events/kvm/kvm_msr/format"), "nonsense").unwrap();
    let wanted = ["kvm:kvm_entry", "kvm:kvm_pio", "kvm:kvm_msr", "sched:sched_switch", "kvm:kvm_exit", "no_colon"];
    let found = find(tracefs.path(), &wanted).unwrap();
    let said: Vec<_> = found.iter().map(|of| (of.system.as_str(), of.name.as_str(), of.id, of.size)).collect();
    assert_eq!(said, [("kvm", "kvm_entry", 8, 12), ("sched", "sched_switch", 7, 28), ("kvm", "kvm_exit", 9, 28)]);
    let threads: Vec<_> = found.iter().map(|of| (of.follows_threads(), of.threads.as_slice())).collect();
    assert_eq!(threads, [(false, &[][..]), (true, &[8, 24]), (false, &[])]);
}

#[test]
fn each_that_is_not_kvms_follows_threads_that_were_seen_in_kvms() {
    for event in recorded(|when| !matches!(when, RecordWhen::Never(_))) {
        let (system, name) = event.split_once(':').unwrap();
        let (system, name, format) = (system.to_string(), name.to_string(), String::new());
        let of = Tracepoint { system, name, id: 1, size: 0, format, threads: Vec::new() };
        assert_eq!(of.follows_threads(), !of.system.starts_with("kvm"), "{event}");
    }
}

#[test]
fn where_none_is_there_that_is_said() {
    let tracefs = tempfile::tempdir().unwrap();
    make(tracefs.path(), "kvm:kvm_entry", 8, &[]);
    assert!(matches!(find(tracefs.path(), &["kvm:kvm_exit"]), Err(RecordError::NoTracepoints)));
    assert!(matches!(find(&tracefs.path().join("nowhere"), &["kvm:kvm_entry"]), Err(RecordError::NoTracepoints)));
}
