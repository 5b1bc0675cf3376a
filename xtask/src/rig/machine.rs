//! The machine: QEMU, without any accelerator, so that it runs where KVM has neither VMX nor SVM, or is not there.

use super::initramfs::IMAGE;
use anyhow::{Context, bail, ensure};
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const QEMU: &str = "qemu-system-x86_64";

/// How often it is looked whether the machine is off.
const POLL: Duration = Duration::from_millis(50);

/// Fails unless QEMU can be started.
pub fn there() -> anyhow::Result<()> {
    let version = Command::new(QEMU).arg("--version").stdout(Stdio::null()).status();
    ensure!(version.is_ok_and(|status| status.success()), "{QEMU} is missing; `make setup` installs it");
    Ok(())
}

/// Boots `kernel` with the initramfs in `folder`, which has so many steps, and waits until the machine is off, for `limit` at most. Leaves
/// `results.tar`, `console.txt` and `qemu.txt` (what QEMU itself said) in `folder`.
pub fn run(folder: &Path, kernel: &Path, steps: usize, limit: Duration) -> anyhow::Result<()> {
    let said = File::create(folder.join("qemu.txt"))?;
    // A step that hangs is stopped inside before that, so that what it left still comes out, and, of many, all others run.
    let inside = limit.as_secs() * 9 / 10;
    let step = if steps == 1 { inside } else { inside / 4 };
    // Without being told, the kernel takes the TSCs of several CPUs that are not Intel's and not constant for unsynchronised (Linux,
    // `unsynchronized_tsc` of arch/x86/kernel/tsc.c), and the clock for the HPET, which takes some microseconds to read here. QEMU has
    // one counter for all CPUs.
    let words = format!("console=ttyS0 quiet panic=-1 tsc=reliable RIG_LIMIT={inside} RIG_STEP={step}");
    // However this process ends, even killed, the kernel then ends QEMU too.
    let mut qemu = Command::new("setpriv");
    qemu.args(["--pdeathsig", "KILL", QEMU])
        .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"])
        // With a thread for each CPU, one of them may go on for ever with a breakpoint that the other has long taken out
        // of the kernel's text (seen with QEMU 7.2): now and then, switching on tracepoints hangs.
        .args(["-accel", "tcg,thread=single", "-cpu", "EPYC,+svm,+npt", "-smp", "2", "-m", "1G"])
        .args(["-initrd", IMAGE, "-append", &words, "-kernel"])
        .arg(kernel)
        .args(["-serial", "file:console.txt", "-device", "virtio-serial"])
        .args(["-chardev", "file,id=results,path=results.tar"])
        .args(["-device", "virtserialport,chardev=results,name=results"])
        // Names of files have no folder here, as a comma in one would have to be doubled for QEMU.
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(said.try_clone()?)
        .stderr(said);
    let mut qemu = Running(qemu.spawn().context("cannot start setpriv, of util-linux")?);
    let begun = Instant::now();
    while begun.elapsed() < limit {
        if let Some(status) = qemu.0.try_wait()? {
            ensure!(status.success(), "QEMU ended with {status}");
            return Ok(());
        }
        std::thread::sleep(POLL);
    }
    bail!("the machine was not off after {} s, and was stopped", limit.as_secs())
}

/// A process that ends when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only for a process that is gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
