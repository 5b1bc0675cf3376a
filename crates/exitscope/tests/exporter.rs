//! `exitscope exporter` beside real guests: what it serves is what they did and what a recording of them says.

mod common;

use common::server::{PATIENCE, Server};
use common::{Beside, cannot_trace, exitscope, report, tiny_guest};
use exitscope_skips::{Part, Skipped, or_skip, skip};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A guest with a name of its own, so that other guests of this machine are told apart.
fn guest(folder: &Path, name: &str) -> PathBuf {
    let guest = folder.join(name);
    std::fs::copy(tiny_guest(), &guest).unwrap();
    guest
}

/// An exporter at work, killed when dropped.
struct Exporter(Server);

impl Exporter {
    /// Starts it; `None` if that cannot be done here and was allowed not to be.
    fn start(flags: &[&str]) -> Result<Exporter, Skipped> {
        Server::start_command("exporter", flags).map_err(cannot_trace).map(Exporter)
    }

    fn metrics(&self) -> String {
        let (head, metrics) = self.0.get("/metrics");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        String::from_utf8(metrics).unwrap()
    }

    /// The value of the sample whose line begins so; 0 if there is none.
    fn value(&self, sample: &str) -> f64 {
        let metrics = self.metrics();
        let line = metrics.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        line.map_or(0.0, |value| value.parse().unwrap())
    }

    /// Waits until a value is there.
    fn wait_for(&self, sample: &str, value: f64) {
        let began = Instant::now();
        while self.value(sample) != value {
            assert!(began.elapsed() < PATIENCE, "{sample} does not become {value} in\n{}", self.metrics());
            sleep(Duration::from_millis(50));
        }
    }

    fn exits(&self, vm: &str, reason: &str) -> f64 {
        self.value(&format!("exitscope_exits_total{{vm=\"{vm}\",reason=\"{reason}\"}}"))
    }
}

#[test]
fn counts_are_the_guests_and_those_of_a_recording_at_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    for (at, flags) in [&[][..], &["--no-bpf"]].into_iter().enumerate() {
        let name = format!("g{at}-{}", std::process::id());
        let guest = guest(folder.path(), &name);
        let exporter = or_skip!(Exporter::start(flags));
        let data = folder.path().join("perf.data");
        let both = format!("{0} --repeat 3000 & {0} --repeat 2000; wait", guest.display());
        // By BPF: beside it, whoever counts by perf events must still get them.
        let record = ["record", "--no-sched", "--buffer", "16M", "-o", data.to_str().unwrap(), "--", "sh", "-c", &both];
        assert!(exitscope().args(record).output().unwrap().status.success());
        let report = report(&[&data], &["--by", "vm,reason"]);
        assert_eq!(report["coverage"]["lost"], 0);
        let rows = report["rows"].as_array().unwrap().iter().filter(|row| row["vm_name"] == name);
        let mut reasons: Vec<(String, u64)> = Vec::new();
        for row in rows {
            let (reason, count) = (row["reason"].as_str().unwrap().to_string(), row["count"].as_u64().unwrap());
            match reasons.iter_mut().find(|known| known.0 == reason) {
                Some(known) => known.1 += count,
                None => reasons.push((reason, count)),
            }
        }
        assert!(reasons.len() >= 3, "{reasons:?}");
        for (reason, count) in &reasons {
            assert_eq!(exporter.exits(&name, reason), *count as f64, "{flags:?} {reason}");
        }
        let io = if reasons.iter().any(|(reason, _)| reason == "KVM_EXIT_IO") { "KVM_EXIT_IO" } else { "io" };
        assert_eq!(exporter.exits(&name, io), f64::from(5000 * (23 + 17)), "{flags:?}");
        exporter.wait_for(&format!("exitscope_vm_processes{{vm=\"{name}\"}}"), 0.0);
        assert_eq!(exporter.0.end("-TERM"), 0, "SIGTERM is no failure");
    }
}

/// On one CPU, which they share.
fn on_one_cpu(program: &Path, flags: &[&str]) -> Child {
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(program).args(flags).stdout(Stdio::null()).spawn().unwrap()
}

/// What Prometheus makes of an exporter that it scrapes each second: rules have values, and a guest that shares its CPU with a
/// process that never sleeps is about to be alerted of.
#[test]
fn a_prometheus_that_scrapes_it_evaluates_the_rules_and_alerts() {
    let tool = |name: &str| {
        let missing = |error| skip(Part::Promtool, format!("{name}, of Debian's package prometheus: {error}"));
        Command::new(name).arg("--version").output().map(|_| ()).map_err(missing)
    };
    or_skip!(tool("promtool").and_then(|()| tool("prometheus")));
    let folder = tempfile::tempdir().unwrap();
    let name = format!("p{}", std::process::id());
    let guest = guest(folder.path(), &name);
    let exporter = or_skip!(Exporter::start(&["--per-vcpu"]));
    let _beside = Beside(vec![on_one_cpu(&guest, &["--repeat", "1000000"]), on_one_cpu(Path::new("yes"), &[])]);
    let mixin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/mixin").canonicalize().unwrap();
    let target = exporter.0.url.split('/').next().unwrap();
    let config = format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
         rule_files: [{mixin}/rules.yml, {mixin}/alerts.yml]\n\
         scrape_configs: [{{ job_name: exitscope, static_configs: [{{ targets: ['{target}'] }}] }}]\n",
        mixin = mixin.display()
    );
    let file = folder.path().join("prometheus.yml");
    std::fs::write(&file, config).unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Command::new("prometheus")
        .arg(format!("--config.file={}", file.display()))
        .arg(format!("--storage.tsdb.path={}", folder.path().join("tsdb").display()))
        .arg(format!("--web.listen-address={free}"))
        .stderr(std::fs::File::create(folder.path().join("log")).unwrap())
        .spawn();
    let prometheus = Server { child: server.unwrap(), url: format!("{free}/") };
    let value = |query: &str| -> Option<f64> {
        let url = format!("http://{free}");
        let output = Command::new("promtool").args(["query", "instant", "-o", "json", &url, query]).output().unwrap();
        let rows: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        rows[0]["value"][1].as_str()?.parse().ok()
    };
    let began = Instant::now();
    let wait_for = |query: &str| loop {
        if let Some(value) = value(query) {
            break value;
        }
        let log = || std::fs::read_to_string(folder.path().join("log")).unwrap();
        assert!(began.elapsed() < PATIENCE, "{query} has no value: {}", log());
        sleep(Duration::from_millis(300));
    };
    let alert = format!("ALERTS{{alertname=\"ExitscopeSteal\", vm=\"{name}\"}}");
    assert_eq!(wait_for(&alert), 1.0);
    let rules = std::fs::read_to_string(mixin.join("rules.yml")).unwrap();
    let recorded: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- record: ")).collect();
    // The guest's halts are rarer than its other exits, and back ends differ in whether they tell of them.
    for record in recorded.iter().filter(|record| !record.contains("halts")) {
        wait_for(&format!("{record}{{vm=\"{name}\"}}"));
    }
    let whole = wait_for(&format!("sum(vm_part:exitscope_vm_time:ratio_rate5m{{vm=\"{name}\"}})"));
    assert!((whole - 1.0).abs() < 1e-6, "the parts of a VM are all of its time: {whole}");
    assert!(wait_for(&format!("sum(exitscope_vcpu_time_seconds_total{{vm=\"{name}\"}})")) > 0.0);
    drop(prometheus);
    assert_eq!(exporter.0.end("-TERM"), 0);
}

#[test]
fn a_file_of_metrics_is_there_while_it_runs_and_only_then() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("exitscope.prom");
    let mut exporter = exitscope();
    exporter.args(["exporter", "--textfile", file.to_str().unwrap()]).stderr(Stdio::piped());
    let mut exporter = exporter.spawn().unwrap();
    let mut said = String::new();
    let mut stderr = BufReader::new(exporter.stderr.take().unwrap());
    while !said.contains("writing ") {
        if stderr.read_line(&mut said).unwrap() == 0 {
            exporter.wait().unwrap();
            or_skip!(Err(cannot_trace(said.clone())));
        }
    }
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("exitscope_build_info{") && !text.contains("process_"), "{text}");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o644, "node_exporter is another user");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    assert!(Command::new("kill").arg(exporter.id().to_string()).status().unwrap().success());
    assert_eq!(exporter.wait().unwrap().code(), Some(0));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let other = common::run(&["exporter", "--textfile", "/dev/null"]);
    assert!(other.status.code() == Some(2) && common::stderr(&other).contains("*.prom"), "{other:?}");
}

#[test]
fn vms_that_come_and_go_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let guests: Vec<PathBuf> = (0..7).map(|number| guest(folder.path(), &format!("s{number}"))).collect();
    let exporter = or_skip!(Exporter::start(&["--max-vms", "3"]));
    let fds = || std::fs::read_dir(format!("/proc/{}/fd", exporter.0.child.id())).unwrap().count();
    let run = |times: usize| {
        for guest in guests.iter().cycle().take(times) {
            assert!(Command::new(guest).stdout(Stdio::null()).status().unwrap().success());
        }
        exporter.metrics()
    };
    run(3);
    let before = fds();
    let metrics = run(70);
    let vms = |metrics: &str| {
        let lines = metrics.lines().filter_map(|line| line.strip_prefix("exitscope_vm_processes{vm=\""));
        lines.map(|line| line.split('"').next().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert!(vms(&metrics).len() <= 4, "three and the others: {:?}", vms(&metrics));
    // One more is open while the kernel measures, for a second.
    let began = Instant::now();
    while fds() > before {
        assert!(began.elapsed() < PATIENCE, "a descriptor for each start: {} after {before}", fds());
        sleep(Duration::from_millis(50));
    }
    assert_eq!(exporter.0.end("-TERM"), 0);
}

#[test]
fn it_is_asked_by_its_own_names_and_by_no_others() {
    let exporter = or_skip!(Exporter::start(&["--host-name", "told.example"]));
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for (name, expected) in [
        ("localhost", "200"),
        ("told.example:9965", "200"),
        (own.trim(), "200"),
        ("evil.example", "421"),
        ("evil.told.example", "421"),
    ] {
        assert_eq!(exporter.0.get_by_name(name, "/metrics", "").0.split(' ').nth(1), Some(expected), "{name}");
    }
    assert_eq!(exporter.0.end("-TERM"), 0);
}

#[test]
fn what_cannot_be_served_is_said_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("empty");
    std::fs::write(&file, "").unwrap();
    let file = file.to_str().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (flags, says) in [
        (&["--listen", taken.as_str()][..], "cannot listen on"),
        (&["--token-file", file], "a token is one line"),
        (&["--tls-cert", file, "--tls-key", file], "no certificates"),
        (&["--vm", "no such machine", "--listen", "127.0.0.1:0"], "no virtual machine called"),
    ] {
        let output = exitscope().arg("exporter").args(flags).output().unwrap();
        let said = common::stderr(&output);
        assert!(output.status.code() == Some(2) && said.contains(says), "{flags:?}: {said}");
    }
}

#[test]
fn the_systemd_unit_is_one_and_is_hardened() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/systemd/exitscope-exporter.service");
    let text = std::fs::read_to_string(unit).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().join("exitscope-exporter.service");
    let program = env!("CARGO_BIN_EXE_exitscope");
    assert!(text.contains("\nExecStart=/usr/bin/exitscope exporter\n"));
    std::fs::write(&here, text.replace("/usr/bin/exitscope", program)).unwrap();
    for arguments in [&["verify"][..], &["security", "--offline=true", "--threshold=25"]] {
        match Command::new("systemd-analyze").args(arguments).arg(&here).output() {
            Ok(output) => assert!(output.status.success(), "{arguments:?}: {output:?}"),
            Err(error) => or_skip!(Err(skip(Part::SystemdAnalyze, error))),
        }
    }
}
