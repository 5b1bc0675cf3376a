//! `exitscope serve` as programs see it: what is where, what is not, and live data that is what guests did. What the pages
//! show is tested in a browser, by web/test.

mod common;

use common::server::{PATIENCE, Server, end, front_end, live};
use common::{Beside, corpus, data_of, exits_at, exitscope, go, held_guest, machine, run, stderr};
use exitscope_skips::or_skip;
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

#[test]
fn without_a_front_end_it_is_said_how_to_get_one() {
    if !exitscope_page::is_built() {
        let output = run(&["serve", corpus("x86-svm/t2.data.gz").to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("make page"), "{}", stderr(&output));
    }
}

#[test]
fn files_are_served_by_number_and_nothing_else_is() {
    or_skip!(front_end());
    let traces = ["x86-svm/t2.data.gz", "x86-svm/t4-kvmstat.data.gz"].map(corpus);
    let paths = traces.each_ref().map(|path| path.to_str().unwrap());
    let server = Server::start(&paths).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (number, path) in paths.iter().enumerate() {
        let page = folder.path().join(format!("{number}.html"));
        let output = run(&["report", path, "--html", page.to_str().unwrap()]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(server.page(&format!("/data/{number}"), "report"), data_of(&page), "{path}");
    }
    let list: serde_json::Value = serde_json::from_slice(&server.get("/files").1).unwrap();
    assert_eq!(list[1]["name"], paths[1]);
    assert_eq!(list[1]["found"]["exits"], server.report("/data/1")["coverage"]["exits"]);
    for (number, row) in list.as_array().unwrap().iter().enumerate() {
        let report = server.report(&format!("/data/{number}"));
        let sum = |of: &str| -> u64 {
            report["vcpus"].as_array().unwrap().iter().map(|vcpu| vcpu[of].as_u64().unwrap_or(0)).sum()
        };
        let share = |of: &str| Some(sum(of) as f64 / sum("span_ns") as f64);
        let has_scheduler = report["event_kinds"]["scheduler"] == true;
        // Read back, a number may be another in its last digit.
        let rounded = |share: Option<f64>| share.map(|share| (share * 1e9).round());
        for (name, wanted) in [("cost", share("cost_ns")), ("steal", share("steal_ns").filter(|_| has_scheduler))] {
            let told = row["found"][format!("{name}_share")].as_f64();
            assert_eq!(rounded(told), rounded(wanted), "{name}");
        }
    }
    for (path, told) in [
        ("/", json!({ "files": "/files" })),
        (
            "/page/1",
            json!({
                "data": "/data/1",
                "notes": "/notes/1",
                "single": "/single/1",
                "groups": "/groups/1",
                "files": "/files",
            }),
        ),
        ("/diff/1/0", json!({ "data": "/diff/1/0/data", "files": "/files" })),
    ] {
        assert_eq!(server.addresses(path), told, "{path}");
    }
    let (head, page) = server.get("/page/1");
    let policy = head.lines().find(|line| line.starts_with("content-security-policy: ")).unwrap();
    for rule in ["default-src 'none'", "script-src 'sha256-", "connect-src 'self'", "frame-ancestors 'none'"] {
        assert!(policy.contains(rule), "{policy}");
    }
    assert!(!policy.contains("unsafe"));
    assert!(!String::from_utf8(page).unwrap().contains("http-equiv=\"Content-Security-Policy\""));
    let diff = run(&["diff", paths[0], paths[1], "--format", "json"]);
    let diff: serde_json::Value = serde_json::from_slice(&diff.stdout).unwrap();
    assert_eq!(server.shown("/diff/0/1/data", "diff"), diff);
    assert_eq!(server.status("/single/0/0/1", ""), 200);
    assert_eq!(server.status("/single/0/1/0", ""), 400, "it ends before it begins");
    for path in [
        "/diff/0",
        "/diff/0/",
        "/diff/0/2",
        "/diff/2/0/data",
        "/diff/0/1/data/",
        "/diff/0/1/2",
        "/page/2",
        "/data/-1",
        "/data/+1",
        "/data/01x",
        "/data/",
        "/data/0/",
        "/data/18446744073709551616",
        "/data/../../etc/passwd",
        "/page/%2e%2e%2fetc%2fpasswd",
        "/etc/passwd",
        paths[0],
        "/live",
        "/live/data",
    ] {
        assert_eq!(server.status(path, ""), 404, "{path}");
    }
    assert_eq!(server.end("-TERM"), 0);
}

/// A table is pasted by who knows the token and by no other page, up to a limit, and nothing of it becomes markup.
#[test]
fn a_table_is_pasted_into_a_box_with_limits() {
    or_skip!(front_end());
    let trace = corpus("x86-svm/t4-kvmstat.data.gz");
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "secret-of-this-test-alone\n").unwrap();
    let server = Server::start(&[trace.to_str().unwrap(), "--token-file", token.to_str().unwrap()]).unwrap();
    let known = "Authorization: Bearer secret-of-this-test-alone\r\n";
    let table = b"table=kvm_exit(<b>)  9  9\nPID TID KVM_EXIT_REASON COUNT\n1 2 HLT 3\n1 2 MSR_WRITE 30\n";
    let post = |headers: &str, body: &[u8]| {
        let (head, body) = server.post("/paste", headers, body.len(), body);
        let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, String::from_utf8(body).unwrap())
    };
    let (head, form) = server.get_with("/paste", known);
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("form-action 'self'"), "{head}");
    assert!(String::from_utf8(form).unwrap().contains("<textarea"));
    // The list of recordings has the box, too; other pages send nothing.
    for (path, forms) in [("/", "form-action 'self'"), ("/page/0", "form-action 'none'")] {
        let (head, _) = server.get_with(path, known);
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains(forms), "{path}: {head}");
    }
    let (status, answer) = post(known, table);
    assert!(
        status == 200 && answer.contains("Most often of the rows in the text: MSR_WRITE, 90.9% of 33 exits"),
        "{status} {answer}"
    );
    assert!(!answer.contains("<b>") && !answer.contains("<script"), "{answer}");
    for (what, headers, body, expected) in [
        ("no token", String::new(), &table[..], 401),
        ("another token", known.replace("alone", "alike"), table, 401),
        ("another's page", format!("{known}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n"), table, 403),
        ("another's page, by its origin", format!("{known}Origin: http://evil.example\r\n"), table, 403),
        ("our own page", format!("{known}Origin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n"), table, 200),
        ("no table", known.to_string(), b"table=hello\n", 422),
        ("nothing", known.to_string(), b"", 422),
    ] {
        assert_eq!(post(&headers, body).0, expected, "{what}");
    }
    // What is too long is refused by its length alone, and where none is told, once it is.
    assert!(server.post("/paste", known, 1 << 40, b"").0.starts_with("HTTP/1.1 413 "));
    let chunk = format!("{:x}\r\n{}\r\n", 200 << 10, "x".repeat(200 << 10));
    let chunks = server.post_chunks("/paste", known, &[&chunk, &chunk]);
    assert!(chunks.is_empty() || chunks.starts_with("HTTP/1.1 413 "), "{chunks}");
    assert_eq!(server.post("/files", known, 3, b"abc").0.split(' ').nth(1), Some("405"));
    assert_eq!(server.status("/files", known), 200, "it still answers");
    assert_eq!(server.end("-TERM"), 0);
}

#[test]
fn what_is_no_trace_is_said_and_others_are_served() {
    or_skip!(front_end());
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.data");
    std::fs::write(&bad, "no trace").unwrap();
    let good = corpus("x86-svm/t4-kvmstat.data.gz");
    let server = Server::start(&[bad.to_str().unwrap(), good.to_str().unwrap()]).unwrap();
    let (head, said) = server.get("/data/0");
    assert!(head.starts_with("HTTP/1.1 422 ") && String::from_utf8_lossy(&said).contains("is not a trace"), "{head}");
    assert!(server.report("/data/1")["total"]["count"].as_u64() > Some(0));
    // Made whole on disk, it is served.
    std::fs::copy(&good, &bad).unwrap();
    assert_eq!(server.report("/data/0")["total"], server.report("/data/1")["total"]);
    std::fs::remove_file(&bad).unwrap();
    assert_eq!(server.status("/data/0", ""), 422);
}

#[test]
fn who_shows_a_file_is_told_that_it_is_gone() {
    or_skip!(front_end());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("one.data");
    std::fs::copy(corpus("x86-svm/t4-kvmstat.data.gz"), &file).unwrap();
    let server = Server::start(&[file.to_str().unwrap()]).unwrap();
    let mut notes = server.notes("/notes/0").map(|note| note.1);
    assert_eq!(notes.next(), Some(json!({ "gone": false })));
    std::fs::remove_file(&file).unwrap();
    assert_eq!(notes.next(), Some(json!({ "gone": true })));
}

#[test]
fn what_is_put_in_place_of_a_file_is_not_read_and_others_are_served() {
    or_skip!(front_end());
    let folder = tempfile::tempdir().unwrap();
    let within = folder.path().join("recordings");
    std::fs::create_dir(&within).unwrap();
    let (swapped, other) = (within.join("swapped.data"), within.join("other.data"));
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "root:$6$secret:1::\n").unwrap();
    let good = corpus("x86-svm/t4-kvmstat.data.gz");
    std::fs::copy(&good, &swapped).unwrap();
    std::fs::copy(&good, &other).unwrap();
    let server = Server::start(&[swapped.to_str().unwrap(), other.to_str().unwrap()]).unwrap();
    let total = server.report("/data/0")["total"].take();
    let link_to = |to: &str| std::os::unix::fs::symlink(to, &swapped).unwrap();
    let made = |name: &str| match name {
        "a pipe" => assert!(Command::new("mkfifo").arg(&swapped).status().unwrap().success()),
        "a link to what others may not read" => link_to(secret.to_str().unwrap()),
        "a link to a file that is served" => link_to(other.to_str().unwrap()),
        "a link to what never ends" => link_to("/dev/zero"),
        "a link to nothing" => link_to("nothing"),
        "a folder" => std::fs::create_dir(&swapped).unwrap(),
        "a socket" => drop(std::os::unix::net::UnixListener::bind(&swapped).unwrap()),
        _ => {}
    };
    for (name, says) in [
        ("a pipe", "a pipe, not a regular file"),
        ("a link to what others may not read", "a symbolic link; links are followed only"),
        ("a link to a file that is served", "a symbolic link; links are followed only"),
        ("a link to what never ends", "a symbolic link; links are followed only"),
        ("a link to nothing", "a symbolic link; links are followed only"),
        ("a folder", "a directory, not a file"),
        ("a socket", "not a regular file"),
        ("nothing", "No such file"),
    ] {
        std::fs::remove_file(&swapped).unwrap();
        made(name);
        for path in ["/data/0", "/diff/0/1/data", "/diff/1/0/data", "/files"] {
            let (head, said) = server.get(path);
            let said = String::from_utf8(said).unwrap();
            assert_eq!(head.starts_with("HTTP/1.1 422 "), path != "/files", "{name} {path}: {head}");
            assert!(said.contains(says) && said.contains("swapped.data"), "{name} {path}: {said}");
            assert!(!said.contains("secret") && !said.contains("root"), "{name} {path}: {said}");
        }
        assert_eq!(server.report("/data/1")["total"], total, "{name}");
        // What `record` leaves: another file, which takes the place of what is there.
        let new = within.join("new");
        std::fs::copy(&good, &new).unwrap();
        if swapped.symlink_metadata().is_ok_and(|about| about.is_dir()) {
            std::fs::remove_dir(&swapped).unwrap();
        }
        std::fs::rename(&new, &swapped).unwrap();
        assert_eq!(server.report("/data/0")["total"], total, "{name}");
    }
    // Nor another folder of the same name.
    std::fs::rename(&within, folder.path().join("moved")).unwrap();
    let elsewhere = folder.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::copy(&secret, elsewhere.join("swapped.data")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &within).unwrap();
    let (head, said) = server.get("/data/0");
    let said = String::from_utf8(said).unwrap();
    assert!(head.starts_with("HTTP/1.1 422 ") && !said.contains("secret") && !said.contains("root"), "{head}\n{said}");
    assert_eq!(server.end("-TERM"), 0);
}

#[test]
fn a_hostile_name_of_a_file_is_shown_and_does_nothing() {
    or_skip!(front_end());
    let folder = tempfile::tempdir().unwrap();
    let name = "\n\"'\\\x1b]0;x\x07\u{202e}<script>alert(1)<!--\n=cmd()";
    let file = folder.path().join(name);
    std::fs::write(&file, "\x1b[31m\u{202e}<script>alert(1)").unwrap();
    let server = Server::start(&[file.to_str().unwrap()]).unwrap();
    let shows = |text: &str| text.chars().all(|c| c == '\n' || !(c.is_control() || c == '\u{202e}'));
    let (head, said) = server.get("/data/0");
    let said = String::from_utf8(said).unwrap();
    assert!(head.contains("422") && head.contains("content-type: text/plain") && head.contains("nosniff"), "{head}");
    assert!(shows(&said) && said.contains("is not a trace"), "{said:?}");
    let page = String::from_utf8(server.get("/page/0").1).unwrap();
    let title = page.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0;
    assert!(shows(title) && !title.contains('\n') && !title.contains('<') && !title.contains('"'), "{title:?}");
    assert!(title.contains("\\u{1b}") && title.contains("&lt;script&gt;alert(1)&lt;!--"), "{title:?}");
    assert!(!page.contains("<script>alert"));
    let list: serde_json::Value = serde_json::from_slice(&server.get("/files").1).unwrap();
    assert!(shows(list[0]["name"].as_str().unwrap()), "{list}");
}

#[test]
fn a_link_that_is_named_stands_for_the_file_that_it_leads_to_then() {
    or_skip!(front_end());
    let folder = tempfile::tempdir().unwrap();
    let (link, other) = (folder.path().join("latest"), folder.path().join("other"));
    std::fs::write(&other, "something else").unwrap();
    std::os::unix::fs::symlink(corpus("x86-svm/t4-kvmstat.data.gz"), &link).unwrap();
    let server = Server::start(&[link.to_str().unwrap()]).unwrap();
    let total = server.report("/data/0")["total"].take();
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&other, &link).unwrap();
    assert_eq!(server.report("/data/0")["total"], total);
    let list: serde_json::Value = serde_json::from_slice(&server.get("/files").1).unwrap();
    assert_eq!(list[0]["name"], link.to_str().unwrap());
}

#[test]
fn viewers_and_half_open_connections_leave_room_for_who_asks() {
    or_skip!(front_end());
    let server = Server::start(&[corpus("x86-svm/t4-kvmstat.data.gz").to_str().unwrap()]).unwrap();
    let connect = |request: &str| {
        let mut stream = TcpStream::connect(server.url.split('/').next().unwrap()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    };
    let viewers: Vec<TcpStream> =
        (0..40).map(|_| connect("GET /notes/0 HTTP/1.1\r\nHost: localhost\r\n\r\n")).collect();
    for mut viewer in &viewers {
        viewer.set_read_timeout(Some(PATIENCE)).unwrap();
        viewer.read_exact(&mut [0; 16]).unwrap();
    }
    let half_open: Vec<TcpStream> = (0..64).map(|_| connect("GET /healthz HTTP/1.1\r\nHost:")).collect();
    for path in ["/healthz", "/", "/files", "/data/0"] {
        assert_eq!(server.status(path, ""), 200, "{path}");
    }
    drop((viewers, half_open));
    assert_eq!(server.end("-TERM"), 0);
}

#[test]
fn a_token_is_asked_for_and_printed() {
    or_skip!(front_end());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "let-me-in\n").unwrap();
    let trace = corpus("x86-svm/t4-kvmstat.data.gz");
    let server = Server::start(&["--token-file", file.to_str().unwrap(), trace.to_str().unwrap()]).unwrap();
    let path = format!("/{}", server.url.split_once('/').unwrap().1);
    assert_eq!(path, "/?token=let-me-in");
    assert_eq!(server.status(&path, ""), 303);
    assert_eq!(server.status("/", ""), 401);
    assert_eq!(server.status("/data/0", ""), 401);
    assert_eq!(server.status("/healthz", ""), 200);
    assert_eq!(server.status("/data/0", "Authorization: Bearer let-me-in\r\n"), 200);
    let port = server.url.split([':', '/']).nth(1).unwrap();
    assert_eq!(server.status("/", &format!("Cookie: exitscope-{port}=let-me-in\r\n")), 200);
}

#[test]
fn what_cannot_be_served_is_said_at_once() {
    or_skip!(front_end());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let trace = corpus("x86-svm/t4-kvmstat.data.gz");
    let trace = trace.to_str().unwrap();
    for (flags, says) in [
        (&["--listen", taken.as_str(), trace][..], "cannot listen on"),
        (&["--listen", "nonsense", trace], "cannot listen on"),
        (&["no such file"], "cannot read no such file"),
        (&["-"], "standard input"),
        (&["/dev/null"], "cannot read /dev/null: not a regular file"),
        (&[env!("CARGO_MANIFEST_DIR")], "a directory, not a file"),
        (&["--live", trace], "cannot be used with"),
        (&["--keep", "5m", trace], "--live"),
        (&["--live", "--keep", "3s"], "10s to 24h"),
        (&["--store", "fleet", trace], "cannot be used with"),
        (&["--store", "fleet", "--live"], "cannot be used with"),
        (&["--by", "host", trace], "cannot be used with"),
        (&["--timeout", "5s", "--live"], "cannot be used with"),
        (&["--by", "host"], "--store <DIR>"),
        #[cfg(feature = "sql")]
        (&["--store", "no such store"], "no such store"),
        #[cfg(not(feature = "sql"))]
        (&["--store", "fleet"], "--features sql"),
        (&["--live", "--vm", "no such machine", "--listen", "127.0.0.1:0"], ""),
    ] {
        let output = exitscope().arg("serve").args(flags).output().unwrap();
        let said = stderr(&output);
        assert!(output.status.code() == Some(2) && said.contains(says), "{flags:?}: {said}");
    }
}

#[cfg(feature = "sql")]
#[test]
fn a_store_is_served_as_it_is_when_the_page_is_loaded() {
    or_skip!(front_end());
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("fleet");
    let place = place.to_str().unwrap();
    let add = |host: &str, trace: &str| {
        let trace = corpus(trace);
        let output = run(&["store", "add", place, trace.to_str().unwrap(), "--host", host, "--day", "2026-11-22"]);
        assert!(output.status.success(), "{}", stderr(&output));
    };
    let printed = || {
        let output = run(&["fleet", "report", place, "--by", "host", "--confidence", "95", "--format", "json"]);
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    add("a", "x86-svm/t2.data.gz");
    let server = Server::start(&["--store", place, "--by", "host", "--confidence", "95"]).unwrap();
    let (head, _) = server.get("/");
    assert!(head.starts_with("HTTP/1.1 303 ") && head.contains("location: /fleet"), "{head}");
    let (head, _) = server.get("/fleet");
    assert!(head.contains("content-security-policy: default-src 'none'") && !head.contains("unsafe"), "{head}");
    assert_eq!(server.addresses("/fleet"), json!({ "data": "/fleet/data" }));
    assert_eq!(server.shown("/fleet/data", "fleet"), printed());
    add("b", "x86-svm/t4-kvmstat.data.gz");
    let grown = server.shown("/fleet/data", "fleet");
    assert_eq!((&grown["hosts"], &grown["comparisons"][0]["value"]), (&2.into(), &"b".into()));
    assert_eq!(grown, printed());
    for path in ["/fleet/notes", "/fleet/data/0", "/fleet/", "/files", "/page/0", "/data/0", "/live", "/_log"] {
        assert_eq!(server.status(path, ""), 404, "{path}");
    }
    let sums = run(&["store", "files", place, "reason_stats"]);
    let sums = String::from_utf8(sums.stdout).unwrap().lines().next().unwrap().to_string();
    let mut bytes = std::fs::read(&sums).unwrap();
    let middle = bytes.len() / 3;
    bytes[middle] ^= 1;
    std::fs::write(&sums, bytes).unwrap();
    let (head, said) = server.get("/fleet/data");
    let name = sums.rsplit('/').next().unwrap();
    assert!(head.starts_with("HTTP/1.1 422 ") && String::from_utf8_lossy(&said).contains(name), "{head}");
    std::fs::remove_dir_all(place).unwrap();
    let (head, said) = server.get("/fleet/data");
    assert!(head.starts_with("HTTP/1.1 422 ") && String::from_utf8_lossy(&said).contains(place), "{head}");
    assert_eq!(server.end("-TERM"), 0);
}

#[test]
fn live_data_are_what_a_guest_did() {
    or_skip!(front_end());
    let _machine = machine();
    for flags in [&["--keep", "10m"][..], &["--no-bpf", "--no-sched"]] {
        let mut guest = held_guest(200);
        let server = or_skip!(live(guest.id(), flags).inspect_err(|_| end(&mut guest)));
        go(&mut guest);
        assert!(guest.wait().unwrap().success());
        let began = Instant::now();
        let report = loop {
            let report = server.report("/live/data");
            if exits_at(&report, "mmio", 0x8000, "write") >= 200 * 13 {
                break report;
            }
            assert!(began.elapsed() < PATIENCE, "{report}");
            sleep(Duration::from_millis(200));
        };
        assert_eq!(exits_at(&report, "port", 0x10, "out"), 200 * 23, "{flags:?}");
        assert_eq!(exits_at(&report, "port", 0x11, "in"), 200 * 17, "{flags:?}");
        assert_eq!(exits_at(&report, "mmio", 0x8000, "write"), 200 * 13, "{flags:?}");
        assert_eq!(report["vcpus"].as_array().unwrap().len(), 1, "{flags:?}");
        assert_eq!(report["coverage"]["lost"], 0, "{flags:?}");
        common::check_json("report", [&report]);
        let advice = server.page("/live/data", "report")["advice"].take();
        common::check_json("advise", [&advice]);
        assert_eq!(advice["exits"], report["coverage"]["exits"], "{flags:?}");
        assert_eq!(server.status("/live/notes/", ""), 404);
        assert_eq!(server.end("-INT"), 0, "{flags:?}");
    }
}

#[test]
fn every_second_it_is_told_how_many_exits_there_were() {
    or_skip!(front_end());
    let _machine = machine();
    let mut guest = Beside(vec![held_guest(1_000_000)]);
    let server = or_skip!(live(guest.0[0].id(), &["--keep", "10s"]));
    let (head, _) = server.get("/");
    assert!(head.starts_with("HTTP/1.1 303 ") && head.contains("location: /live"), "{head}");
    let told = json!({ "data": "/live/data", "notes": "/live/notes", "keep_ns": 10_000_000_000_u64 });
    assert_eq!(server.addresses("/live"), told);
    go(&mut guest.0[0]);
    let exits = |note: &serde_json::Value| note["exits"].as_u64().unwrap();
    let notes: Vec<_> = server.notes("/live/notes").filter(|note| exits(&note.1) > 0).take(3).collect();
    drop(guest);
    assert_eq!(notes.len(), 3);
    for two in notes.windows(2) {
        let [(before, earlier), (id, note)] = two else { unreachable!() };
        assert_ne!(id, before);
        // Rates are told to a tenth.
        let seconds = (exits(note) - exits(earlier)) as f64 / note["exits_per_s"].as_f64().unwrap();
        assert!((0.9999..PATIENCE.as_secs_f64()).contains(&seconds), "{earlier} {note}");
    }
    assert_eq!(server.end("-INT"), 0);
}

#[test]
fn what_is_older_than_wanted_is_forgotten() {
    or_skip!(front_end());
    let _machine = machine();
    let mut guest = held_guest(50);
    let server = or_skip!(live(guest.id(), &["--keep", "10s"]).inspect_err(|_| end(&mut guest)));
    go(&mut guest);
    assert!(guest.wait().unwrap().success());
    let began = Instant::now();
    let mut seen = false;
    loop {
        let exits = server.report("/live/data")["total"]["count"].as_u64().unwrap();
        seen |= exits > 0;
        if seen && exits == 0 {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{exits} exits, {seen}");
        sleep(Duration::from_millis(500));
    }
    assert!(Path::new(&format!("/proc/{}", server.child.id())).exists());
}
