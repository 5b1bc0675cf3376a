//! What guests ask for, and what a change wins of it: the truth, against which the product's bounds are held.
//!
//! ```text
//! a turn of a guest ─► its exits, each with what it takes by itself ─┬─► the recording
//!                                                                    └─► what the change spares of them, less what takes their place
//! ```

use super::made_trace::{Lengths, MadeExit, MadeTrace, MadeVcpu};
use rand::Rng;
use rand_pcg::Pcg64;

/// A cause that a change can be made about.
pub struct GainCase {
    pub name: &'static str,
    /// How the ids of its advice end.
    pub advice: &'static str,
    /// Exits of one request of the guest, and what the change wins of them, in nanoseconds.
    pub turn: fn(&mut Turn<'_>) -> u64,
}

/// What differs from recording to recording.
pub struct Habits {
    /// What an exit takes in the kernel and in user space.
    pub kernel: Lengths,
    pub user: Lengths,
    /// What an exit takes that the kernel answers.
    pub in_kernel: Lengths,
    /// The part of requests that is of the rarer kind; and what of the guest's kind is drawn once.
    pub mix: f64,
    pub kind: f64,
}

/// A guest that makes a request.
pub struct Turn<'a> {
    pub trace: &'a mut MadeTrace,
    pub vcpu: &'a mut MadeVcpu,
    pub habits: &'a Habits,
    pub rng: &'a mut Pcg64,
}

const IO: Option<&str> = Some("KVM_EXIT_IO (2)");
const MMIO: Option<&str> = Some("KVM_EXIT_MMIO (6)");

impl Turn<'_> {
    /// The guest is elsewhere for a moment, between exits of one request.
    fn exit(&mut self, exit: &MadeExit<'_>) -> u64 {
        let kernel = self.habits.kernel.draw(self.rng);
        let user = if exit.user_space.is_some() { self.habits.user.draw(self.rng) } else { 0 };
        let own = self.trace.exit(self.vcpu, exit, (kernel, user), self.rng);
        self.trace.run_guest(self.vcpu, 1_000.0, self.rng);
        own
    }

    fn port(&mut self, port: u64, is_read: bool) -> u64 {
        let about =
            format!("kvm_pio: {} at {port:#x} size 1 count 1 val 0x20", if is_read { "pio_read" } else { "pio_write" });
        self.exit(&MadeExit { reason: "IO_INSTRUCTION", about: &about, user_space: IO, is_read })
    }

    fn ports(&mut self, ports: impl IntoIterator<Item = u64>, is_read: bool) -> u64 {
        ports.into_iter().map(|port| self.port(port, is_read)).sum()
    }

    fn memory(&mut self, at: u64, is_read: bool) -> u64 {
        let about = format!("kvm_mmio: mmio {} len 4 gpa {at:#x} val 0x1", if is_read { "read" } else { "write" });
        self.exit(&MadeExit { reason: "EPT_MISCONFIG", about: &about, user_space: MMIO, is_read })
    }

    fn msr(&mut self, msr: &str) -> u64 {
        let about = format!("kvm_msr: msr_write {msr} = 0x1");
        self.exit(&MadeExit { reason: "MSR_WRITE", about: &about, user_space: None, is_read: false })
    }

    /// What an exit takes that the kernel answers, in the place of one or more of these.
    fn instead(&mut self) -> u64 {
        self.habits.in_kernel.draw(self.rng)
    }

    /// Of exits that user space answers, what is won if the kernel does.
    fn moved_in(&mut self, exits: &[u64]) -> u64 {
        exits.iter().map(|own| own.saturating_sub(self.instead())).sum()
    }

    fn is_rare(&mut self) -> bool {
        self.rng.random::<f64>() < self.habits.mix
    }

    fn up_to(&mut self, most: u64) -> u64 {
        self.rng.random_range(1..=most)
    }
}

/// In the order of the table of causes.
pub static CASES: &[GainCase] = &[
    // The counter is read, or a timer is set: one look before, the comparator, one look after (hpet_set_next_event of the guest's
    // arch/x86/kernel/hpet.c); the local APIC's timer takes its place, an exit that the kernel answers.
    GainCase { name: "HPET", advice: "cure/mmio/hpet", turn: hpet },
    // Of a third of the guests, each reads an MSR instead: Windows that does not trust the reference TSC page.
    GainCase { name: "ACPI PM timer", advice: "cure/port/acpi-pm-timer", turn: pm_timer },
    GainCase { name: "PIT", advice: "cure/port/pit", turn: pit },
    GainCase { name: "interrupt controller", advice: "cure/port/interrupt-controller", turn: interrupt_controller },
    GainCase { name: "local APIC in user space", advice: "cure/mmio/local-apic", turn: local_apic },
    // A line: the port's interrupts off, each byte after looks at the status, and on; then a doorbell for up to 16 bytes (N_OUTBUF of
    // the guest's drivers/tty/hvc/hvc_console.c), or one for each where a program writes them one by one.
    GainCase { name: "serial port", advice: "cure/port/serial-port", turn: serial_port },
    GainCase {
        name: "keyboard controller",
        advice: "cure/port/keyboard-controller",
        turn: |turn| turn.port(0x64, true),
    },
    // A command: its registers, and looks at the status; then a doorbell.
    GainCase { name: "IDE disk", advice: "cure/port/ide-disk", turn: ide_disk },
    GainCase { name: "floppy controller", advice: "cure/port/floppy-controller", turn: |turn| turn.port(0x3f4, true) },
    GainCase {
        name: "firmware's debug console",
        advice: "cure/port/firmware-s-debug-console",
        turn: |turn| turn.port(0x402, false),
    },
    GainCase { name: "VMware backdoor", advice: "cure/port/vmware-backdoor", turn: |turn| turn.port(0x5658, true) },
    GainCase { name: "performance counters", advice: "cure/msr/performance-counters", turn: performance_counters },
    GainCase { name: "doorbell", advice: "doorbell/mmio/0xfe003000", turn: doorbell },
];

fn hpet(turn: &mut Turn<'_>) -> u64 {
    if !turn.is_rare() {
        return turn.memory(0xfed0_00f0, true);
    }
    let own = turn.memory(0xfed0_00f0, true) + turn.memory(0xfed0_0108, false) + turn.memory(0xfed0_00f0, true);
    own.saturating_sub(turn.instead())
}

fn pm_timer(turn: &mut Turn<'_>) -> u64 {
    let own = turn.port(0x608, true);
    if turn.habits.kind < 1.0 / 3.0 { turn.moved_in(&[own]) } else { own }
}

fn pit(turn: &mut Turn<'_>) -> u64 {
    let own = [0x43, 0x40, 0x40].map(|port| turn.port(port, false));
    turn.moved_in(&own)
}

fn interrupt_controller(turn: &mut Turn<'_>) -> u64 {
    let own = if turn.is_rare() { turn.port(0xa0, false) } else { turn.port(0x20, false) };
    turn.moved_in(&[own])
}

fn local_apic(turn: &mut Turn<'_>) -> u64 {
    let own = if turn.is_rare() { turn.memory(0xfee0_0380, false) } else { turn.memory(0xfee0_00b0, false) };
    turn.moved_in(&[own])
}

fn serial_port(turn: &mut Turn<'_>) -> u64 {
    let bytes = turn.up_to(24);
    let mut own = turn.port(0x3f9, false);
    for _ in 0..bytes {
        let looks = turn.up_to(2);
        own += turn.ports((0..looks).map(|_| 0x3fd), true) + turn.port(0x3f8, false);
    }
    own += turn.port(0x3f9, false);
    let doorbells = if turn.habits.kind < 1.0 / 3.0 { bytes } else { bytes.div_ceil(16) };
    own.saturating_sub((0..doorbells).map(|_| turn.instead()).sum())
}

fn ide_disk(turn: &mut Turn<'_>) -> u64 {
    let own = turn.ports(0x1f1..=0x1f7, false);
    let looks = turn.up_to(3);
    let own = own + turn.ports((0..looks).map(|_| 0x1f7), true);
    own.saturating_sub(turn.instead())
}

fn performance_counters(turn: &mut Turn<'_>) -> u64 {
    ["38f", "186", "c1", "38f"].into_iter().map(|msr| turn.msr(msr)).sum()
}

fn doorbell(turn: &mut Turn<'_>) -> u64 {
    let own = turn.memory(0xfe00_3000, false);
    turn.moved_in(&[own])
}
