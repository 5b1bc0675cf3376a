//! A made recording, as text of ftrace's: vCPUs that leave their guests, each on a CPU of its own, from which another task may keep it.
//!
//! ```text
//! kvm_exit ── kernel ── kvm_userspace_exit ── user space ─╳─ waits for its CPU ─╳─ user space ── kernel ── kvm_entry
//!             └────── own ──────┘             └── own ──┘                         └──────── own ───────┘
//! ```

use rand::Rng;
use rand_distr::{Distribution, Exp1, LogNormal, Pareto};
use rand_pcg::Pcg64;
use std::fmt::Write;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// No exit takes longer by itself: Pareto's tail has no end.
const LONGEST: f64 = 50e6;

/// How lengths of time are spread, in nanoseconds.
#[derive(Clone, Copy)]
pub enum Lengths {
    Lognormal(LogNormal<f64>),
    Pareto(Pareto<f64>),
}

impl Lengths {
    /// Lognormal, with this median.
    pub fn lognormal(median: f64, sigma: f64) -> Lengths {
        Lengths::Lognormal(LogNormal::new(median.ln(), sigma).expect("a spread that is finite"))
    }

    /// Pareto's, with this median.
    pub fn pareto(median: f64, alpha: f64) -> Lengths {
        let least = median / 2_f64.powf(1.0 / alpha);
        Lengths::Pareto(Pareto::new(least, alpha).expect("a least length and a tail above zero"))
    }

    /// One of them.
    pub fn draw(&self, rng: &mut Pcg64) -> u64 {
        let length = match self {
            Lengths::Lognormal(lengths) => lengths.sample(rng),
            Lengths::Pareto(lengths) => lengths.sample(rng),
        };
        length.clamp(100.0, LONGEST) as u64
    }
}

/// How another task takes CPUs from vCPUs within their exits.
#[derive(Clone, Copy)]
pub struct Taken {
    /// Of how many exits, 0 to 1.
    pub part: f64,
    pub lengths: Lengths,
    /// Whether the recording has the scheduler's events.
    pub is_recorded: bool,
}

/// A vCPU, and where it is in time.
#[derive(Clone, Copy)]
pub struct MadeVcpu {
    pub pid: u32,
    pub tid: u32,
    pub number: u32,
    pub cpu: u32,
    pub at: u64,
}

/// An exit, but for its times.
pub struct MadeExit<'a> {
    pub reason: &'static str,
    /// What it is about.
    pub about: &'a str,
    /// As kvm_userspace_exit names it, if it goes on there.
    pub user_space: Option<&'static str>,
    /// Whether what it is about is known when it comes back, as the value of a read.
    pub is_read: bool,
}

/// Its lines.
pub struct MadeTrace {
    lines: Vec<(u64, String)>,
    pub taken: Taken,
    /// Of the first and the last event of each process's vCPUs.
    spans: Vec<(u32, u64, u64)>,
}

impl MadeTrace {
    pub fn new(taken: Taken) -> MadeTrace {
        MadeTrace { lines: Vec::new(), taken, spans: Vec::new() }
    }

    /// How long the vCPUs of a process were seen.
    pub fn span(&self, pid: u32) -> u64 {
        self.spans.iter().find(|span| span.0 == pid).map_or(0, |span| span.2 - span.1)
    }

    /// The text, in order of time.
    pub fn text(mut self) -> String {
        self.lines.sort_by_key(|line| line.0);
        let mut text =
            "# tracer: nop\n#\n#           TASK-PID     TGID     CPU#  |||||  TIMESTAMP  FUNCTION\n".to_string();
        self.lines.iter().for_each(|line| text.push_str(&line.1));
        text
    }

    /// An event that a vCPU's thread makes.
    pub fn event(&mut self, vcpu: &MadeVcpu, what: &str) {
        let MadeVcpu { pid, tid, number, cpu, at } = *vcpu;
        self.line(&format!("CPU {number}/KVM-{tid} ({pid})"), cpu, at, what);
        match self.spans.iter_mut().find(|span| span.0 == pid) {
            Some((_, first, last)) => (*first, *last) = (at.min(*first), at.max(*last)),
            None => self.spans.push((pid, at, at)),
        }
    }

    fn line(&mut self, task: &str, cpu: u32, at: u64, what: &str) {
        let mut line = String::new();
        let at = at + 1_000 * SECOND;
        let (second, nano) = (at / SECOND, at % SECOND);
        let _ = writeln!(line, "  {task} [{cpu:03}] d....  {second}.{nano:09}: {what}");
        self.lines.push((at, line));
    }

    /// A vCPU enters its guest for the first time.
    pub fn begin(&mut self, vcpu: &MadeVcpu) {
        if self.taken.is_recorded {
            self.switch(("swapper", 0, "R"), vcpu, true);
        }
        self.event(vcpu, &format!("kvm_entry: vcpu {}, rip 0xffffffff81000010", vcpu.number));
    }

    /// A vCPU is in its guest for so long on average.
    pub fn run_guest(&mut self, vcpu: &mut MadeVcpu, mean: f64, rng: &mut Pcg64) {
        let length: f64 = Exp1.sample(rng);
        vcpu.at += (length * mean) as u64 + 200;
    }

    /// A vCPU makes an exit; what it takes by itself, in the kernel and in user space.
    pub fn exit(
        &mut self,
        vcpu: &mut MadeVcpu,
        exit: &MadeExit<'_>,
        (kernel, user): (u64, u64),
        rng: &mut Pcg64,
    ) -> u64 {
        let number = vcpu.number;
        self.event(vcpu, &exit_line(number, exit.reason));
        vcpu.at += kernel / 4;
        if !exit.is_read && !exit.about.is_empty() {
            self.event(vcpu, exit.about);
        }
        vcpu.at += kernel / 4;
        if let Some(reason) = exit.user_space {
            self.event(vcpu, &format!("kvm_userspace_exit: reason {reason}"));
        }
        vcpu.at += user / 2;
        if rng.random::<f64>() < self.taken.part {
            self.wait(vcpu, rng);
        }
        vcpu.at += user - user / 2 + kernel / 4;
        if exit.is_read && !exit.about.is_empty() {
            self.event(vcpu, exit.about);
        }
        vcpu.at += kernel - kernel / 4 * 3;
        self.event(vcpu, &format!("kvm_entry: vcpu {number}, rip 0xffffffff81000010"));
        kernel + user
    }

    /// A vCPU halts for a while.
    pub fn halt(&mut self, vcpu: &mut MadeVcpu, rng: &mut Pcg64) {
        let length = Lengths::lognormal(150e3, 0.8).draw(rng);
        self.event(vcpu, &exit_line(vcpu.number, "HLT"));
        vcpu.at += 1_500;
        if self.taken.is_recorded {
            self.switch(("swapper", 0, "S"), vcpu, false);
        }
        vcpu.at += length;
        if self.taken.is_recorded {
            let MadeVcpu { tid, number, cpu, at, .. } = *vcpu;
            let woken = format!("sched_wakeup: comm=CPU {number}/KVM pid={tid} prio=120 target_cpu={cpu:03}");
            self.line("<idle>-0 (-------)", cpu, at, &woken);
            vcpu.at += 1_000;
            self.switch(("swapper", 0, "R"), vcpu, true);
        }
        vcpu.at += 500;
        self.event(vcpu, &format!("kvm_vcpu_wakeup: wait time {length} ns, polling valid"));
        vcpu.at += 700;
        self.event(vcpu, &format!("kvm_entry: vcpu {}, rip 0xffffffff81000010", vcpu.number));
    }

    /// Another task takes the CPU for a while.
    fn wait(&mut self, vcpu: &mut MadeVcpu, rng: &mut Pcg64) {
        let length = self.taken.lengths.draw(rng);
        if self.taken.is_recorded {
            self.switch(("stress", 900, "R"), vcpu, false);
        }
        vcpu.at += length;
        if self.taken.is_recorded {
            self.switch(("stress", 900, "R"), vcpu, true);
        }
    }

    /// The scheduler gives the CPU from another task to the vCPU, or takes it away, in a state.
    fn switch(&mut self, (name, task, state): (&str, u32, &str), vcpu: &MadeVcpu, is_back: bool) {
        let MadeVcpu { pid, tid, number, cpu, at } = *vcpu;
        let (own, name) = (format!("CPU {number}/KVM"), format!("{name}/{cpu}"));
        let (from, to, who) = match is_back {
            true => ((name.clone(), task), (own, tid), format!("{name}-{task} ({task})")),
            false => ((own.clone(), tid), (name, task), format!("{own}-{tid} ({pid})")),
        };
        let what = format!(
            "sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={state} ==> next_comm={} next_pid={} next_prio=120",
            from.0, from.1, to.0, to.1
        );
        self.line(&who, cpu, at, &what);
    }
}

fn exit_line(vcpu: u32, reason: &str) -> String {
    format!(
        "kvm_exit: vcpu {vcpu} reason {reason} rip 0xffffffff81000010 info1 0x0000000000000000 info2 0x0000000000000000 intr_info \
         0x00000000 error_code 0x00000000"
    )
}
