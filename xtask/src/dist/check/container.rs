//! The image, unpacked by umoci and run by crun: as nobody, with a root that is only read.

use super::{RECORDING, folder, image, output, root};
use anyhow::{Context, ensure};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Until a server answers.
const PATIENCE: Duration = Duration::from_secs(20);

/// Split, as it is no path of this machine.
const TEMPORARY: &str = concat!("/", "tmp");

/// What the exporter needs, as contrib/systemd has it.
const CAPABILITIES: [&str; 3] = ["CAP_BPF", "CAP_PERFMON", "CAP_DAC_READ_SEARCH"];

pub fn check() -> anyhow::Result<String> {
    let bundle = Bundle::unpack()?;
    let report = bundle.run(&["report", "/data/t2.data.gz"], &[])?.wait_with_output()?;
    let text = String::from_utf8_lossy(&report.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&report.stderr).into_owned();
    ensure!(report.status.success() && text.contains("Best change"), "crun: {text}{complaint}");
    let list = bundle.asked(&["serve", "--listen", "ADDRESS", "/data/t2.data.gz"], &[], "/files")?;
    ensure!(list.contains("t2.data.gz"), "the list of recordings lacks ours: {list}");
    let exporter = match Path::new("/sys/kernel/tracing/events/kvm").exists() {
        true => {
            let metrics = bundle.asked(&["exporter", "--listen", "ADDRESS"], &CAPABILITIES, "/metrics")?;
            ensure!(metrics.contains("exitscope_build_info"), "no metrics: {metrics}");
            "and exporter answer"
        }
        false => "answers; no tracefs here, exporter not tried",
    };
    Ok(format!("report, serve {exporter}, by crun, as {}, root read-only", image::USER))
}

/// An image as crun runs it.
struct Bundle {
    place: TempDir,
}

impl Bundle {
    fn unpack() -> anyhow::Result<Bundle> {
        let place = tempfile::tempdir()?;
        let layout = place.path().join("layout");
        fs::create_dir(&layout)?;
        output(Command::new("tar").arg("-xf").arg(folder().join(image::name())).arg("-C").arg(&layout))?;
        let tag = format!("{}:{}", layout.display(), image::reference());
        output(Command::new("umoci").args(["unpack", "--image", &tag]).arg(place.path().join("bundle")))?;
        let data = place.path().join("data");
        fs::create_dir(&data)?;
        fs::copy(root().join(RECORDING), data.join("t2.data.gz"))?;
        Ok(Bundle { place })
    }

    fn path(&self) -> PathBuf {
        self.place.path().join("bundle")
    }

    /// Runs the image with these words behind its program, and nothing but these capabilities.
    fn run(&self, words: &[&str], capabilities: &[&str]) -> anyhow::Result<Child> {
        let file = self.path().join("config.json");
        let mut config: Value = serde_json::from_slice(&fs::read(&file)?)?;
        let user = &config["process"]["user"];
        ensure!(image::USER == format!("{}:{}", user["uid"], user["gid"]), "the image is run as {user}");
        let program = config["process"]["args"][0].clone();
        let mut arguments = vec![program];
        arguments.extend(words.iter().map(|word| json!(word)));
        let kinds = ["bounding", "effective", "permitted", "inheritable", "ambient"];
        config["process"]["capabilities"] = kinds.iter().map(|kind| (kind.to_string(), json!(capabilities))).collect();
        config["process"]["args"] = Value::Array(arguments);
        config["process"]["terminal"] = json!(false);
        config["process"]["noNewPrivileges"] = json!(true);
        config["root"]["readonly"] = json!(true);
        // Asked from here, and told of the VMs that run here.
        config["linux"]["namespaces"] = json!([{ "type": "mount" }, { "type": "ipc" }, { "type": "uts" }]);
        config["linux"]["maskedPaths"] = json!([]);
        config["linux"]["resources"] = Value::Null;
        config["linux"]["seccomp"] = Value::Null;
        config["process"]["rlimits"] = json!([]);
        let bind = |from: &Path, to: &str| json!({ "destination": to, "type": "bind", "source": from, "options": ["rbind", "ro"] });
        config["mounts"] = json!([
            { "destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"] },
            // Where what is compressed is unpacked.
            { "destination": TEMPORARY, "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777"] },
            { "destination": "/proc", "type": "proc", "source": "proc" },
            bind(Path::new("/sys"), "/sys"),
            bind(&self.place.path().join("data"), "/data"),
        ]);
        fs::write(&file, config.to_string())?;
        // crun knows no host with both kinds of control groups, and needs none of them here.
        let enter =
            "mount -t cgroup2 none /sys/fs/cgroup && exec crun --cgroup-manager=disabled run --bundle \"$1\" \"$2\"";
        let mut run = Command::new("unshare");
        run.args(["--mount", "sh", "-c", enter, "sh"]).arg(self.path()).arg(name());
        Ok(run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
    }

    /// What a server of the image answers.
    fn asked(&self, words: &[&str], capabilities: &[&str], path: &str) -> anyhow::Result<String> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let words: Vec<&str> =
            words.iter().map(|word| if *word == "ADDRESS" { address.as_str() } else { word }).collect();
        let mut server = Stopped(self.run(&words, capabilities)?);
        let began = Instant::now();
        loop {
            if let Ok(answer) = get(&address, path) {
                return Ok(answer);
            }
            if let Some(status) = server.0.try_wait()? {
                let mut said = String::new();
                server.0.stderr.take().context("it is read once")?.read_to_string(&mut said)?;
                anyhow::bail!("{words:?}: {status}: {said}");
            }
            ensure!(began.elapsed() < PATIENCE, "{words:?}: no answer");
            sleep(Duration::from_millis(50));
        }
    }
}

/// A server that ends with this value.
struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = Command::new("crun").args(["kill", &name(), "KILL"]).status();
        let _ = self.0.wait();
    }
}

/// What crun calls the container; one is run at a time.
fn name() -> String {
    format!("exitscope-dist-{}", std::process::id())
}

fn get(address: &str, path: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    Ok(answer)
}
