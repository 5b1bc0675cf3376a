//! Single events as text and as JSON lines.

use exitscope_model::{Event, EventKind, EventNames, ExitInfo, ExitWord, Handler, IdleEvent, PollChange, SubjectKind};
use exitscope_units::Moment;
use schemars::JsonSchema;
use serde::Serialize;

/// A decoded event; one line of `exitscope events --format json`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct EventRow<'a> {
    /// When, in nanoseconds on the trace's clock.
    pub at_ns: u64,
    /// The physical CPU that recorded it; absent if the record does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// The thread that recorded it.
    pub tid: u32,
    /// The process of that thread, or Xen's domain, if the trace says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm: Option<u32>,
    /// The vCPU, if the event says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vcpu: Option<u32>,
    /// The tracepoint.
    pub event: &'a str,
    /// What it was taken for: `exit`, `enter`, `userspace_exit`, `detail`, …; `other` if accounting has no use for it.
    pub kind: &'static str,
    /// Exit reason, or the KVM_EXIT_* reason of a `userspace_exit`, in the kernel's spelling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Of an exit, the guest's instruction pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rip: Option<u64>,
    /// What x86's exit says besides: VMX's exit qualification, SVM's EXITINFO1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub info1: Option<u64>,
    /// The same, further: VMX's IDT-vectoring information, SVM's EXITINFO2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub info2: Option<u64>,
    /// Of x86: the interrupt or exception that the exit was for, or that it interrupted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intr_info: Option<u64>,
    /// Of x86: the error code of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<u64>,
    /// Of x86: what others had asked of the vCPU (`KVM_REQ_*`), as bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Of powerpc, where it is so: the guest ceded its CPU (H_CEDE), and is halted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceded: Option<bool>,
    /// Negative errno with which KVM_RUN returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
    /// What a `detail` is about: `port`, `mmio`, `msr`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject_kind: Option<&'static str>,
    /// Port, address, MSR, hypercall number, CPUID leaf, error code, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject_key: Option<u64>,
    /// `in`/`out`, `read`/`write`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<&'static str>,
    /// Access size in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u16>,
    /// Value read or written, fault address, CPUID index, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
    /// What the handler of a device's interrupt is called; what is longer than 23 bytes is cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler: Option<String>,
    /// Injected vector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vector: Option<u32>,
    /// Length of a halt in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub halt_ns: Option<u64>,
    /// Whether a halt slept (else polling was enough).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited: Option<bool>,
    /// Whether what ended a halt was meant for the vCPU (false only on s390).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid: Option<bool>,
    /// How long KVM polls for this vCPU, or a guest's governor on its own CPU, from now on, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll_ns: Option<u32>,
    /// How long it polled until now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_poll_ns: Option<u32>,
    /// The idle CPU of the kernel that recorded which polled, so that it was woken without an interrupt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_cpu: Option<u32>,
    /// How long this vCPU may loop on PAUSE from now on: cycles on VMX, PAUSEs on SVM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u32>,
    /// How long it might until now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_window: Option<u32>,
    /// The run state that the vCPU was in (Xen).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<&'static str>,
    /// The run state that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<&'static str>,
    /// Thread that stops running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prev: Option<u32>,
    /// Whether it stops because it sleeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sleeps: Option<bool>,
    /// Thread that runs next, or that is woken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
    /// Records lost before this moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
}

impl<'a> EventRow<'a> {
    /// The row of an event; `info` is what an exit says besides.
    pub fn of(event: &Event, info: &ExitInfo, names: &'a EventNames) -> EventRow<'a> {
        let mut row = EventRow {
            at_ns: event.at.as_nanos(),
            cpu: (event.cpu.0 != u32::MAX).then_some(event.cpu.0),
            tid: event.tid.0,
            vm: event.vm.number(),
            vcpu: event.vcpu.number(),
            event: names.get(event.name),
            kind: "other",
            info1: info.get(ExitWord::Info1),
            info2: info.get(ExitWord::Info2),
            intr_info: info.get(ExitWord::IntrInfo),
            error_code: info.get(ExitWord::ErrorCode),
            requests: info.get(ExitWord::Requests),
            ..EventRow::default()
        };
        row.kind = match event.kind {
            EventKind::Exit { code, idle, rip, .. } => {
                row.rip = (rip > 0).then_some(rip);
                row.reason = Some(code.name());
                row.ceded = idle.then_some(true);
                "exit"
            }
            EventKind::Refine { code } => {
                row.reason = Some(code.name());
                "refine"
            }
            // Beside its exit, this is said in that one's row.
            EventKind::ExitInfo(_) => "exit_info",
            EventKind::Enter => "enter",
            EventKind::KvmOut => "leave",
            EventKind::UserspaceExit { reason, errno } => {
                row.reason = Some(Handler::Userspace(reason).name());
                row.errno = (errno < 0).then_some(errno);
                "userspace_exit"
            }
            EventKind::Fpu { load: true } => "fpu_load",
            EventKind::Fpu { load: false } => "fpu_put",
            EventKind::RunEnter => "run_enter",
            EventKind::Syscall { .. } => "call",
            EventKind::SyscallExit => "ioctl_exit",
            EventKind::Emulate => "emulate",
            EventKind::KvmActivity(_) | EventKind::ApicvChange(_) => "sign",
            EventKind::Nested => "nested",
            EventKind::Reflect => "reflect",
            EventKind::Detail(detail) => {
                row.subject_kind = Some(detail.kind.name());
                row.subject_key = Some(detail.key);
                row.direction = detail.kind.direction(detail.write);
                row.size_bytes = (detail.size > 0).then_some(detail.size);
                row.value = Some(detail.value);
                "detail"
            }
            EventKind::HostIrq { irq, name } => {
                row.subject_kind = Some(SubjectKind::HostIrq.name());
                row.subject_key = Some(irq.into());
                row.handler = name.text().map(|name| name.into_owned());
                "detail"
            }
            EventKind::Inject { vector } => {
                row.vector = Some(vector);
                "inject"
            }
            EventKind::HaltEnd { ns, waited, valid } => {
                row.halt_ns = Some(ns);
                row.waited = Some(waited);
                row.valid = Some(valid);
                "halt_end"
            }
            EventKind::Wfx { wfe: true } => "wfe",
            EventKind::Wfx { wfe: false } => "wfi",
            EventKind::HaltPoll { grow, new, old } => {
                row.poll_ns = Some(new);
                row.old_poll_ns = Some(old);
                if grow { "poll_grow" } else { "poll_shrink" }
            }
            EventKind::Idle(IdleEvent::WokenPolling { cpu }) => {
                row.idle_cpu = Some(cpu.0);
                "woken_polling"
            }
            EventKind::Idle(IdleEvent::PollLimit(PollChange { grow, new, old })) => {
                row.poll_ns = Some(new);
                row.old_poll_ns = Some(old);
                if grow { "guest_poll_grow" } else { "guest_poll_shrink" }
            }
            EventKind::PleWindow { new, old } => {
                row.window = Some(new);
                row.old_window = Some(old);
                "ple_window"
            }
            EventKind::Yield => "yield",
            EventKind::VcpuHint => "vcpu",
            EventKind::RunCore { exit: false, .. } => "core_enter",
            EventKind::RunCore { exit: true, .. } => "core_exit",
            EventKind::Switch { prev, sleeps, next, .. } => {
                row.prev = Some(prev.0);
                row.sleeps = Some(sleeps);
                row.next = Some(next.0);
                "switch"
            }
            EventKind::RunState { from, to } => {
                row.from = Some(from.name());
                row.to = Some(to.name());
                "run_state"
            }
            EventKind::VcpuWake { .. } => "vcpu_wake",
            EventKind::Wakeup { tid } => {
                row.next = Some(tid.0);
                "wakeup"
            }
            EventKind::Lost { count } => {
                row.event = "";
                row.lost = Some(count);
                "lost"
            }
            EventKind::Other => "other",
        };
        row
    }
}

/// One line of text: moment, CPU, thread, tracepoint, then what was understood as `key=value`.
pub fn event_text(at: Moment, row: EventRow<'_>) -> String {
    let mut text = format!(
        "{} [{}] {:>7} {:<28} {:<14}",
        at,
        row.cpu.map_or("---".to_string(), |cpu| format!("{cpu:03}")),
        row.tid,
        row.event,
        row.kind
    );
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            text.push(' ');
            text.push_str(name);
            text.push('=');
            text.push_str(&value);
        }
    };
    // On Xen there are no threads, so the VM is not theirs.
    put("dom", row.vm.filter(|_| row.event.starts_with("xen:")).map(|vm| vm.to_string()));
    put("vcpu", row.vcpu.map(|vcpu| vcpu.to_string()));
    put("reason", row.reason);
    put("rip", row.rip.map(|rip| format!("{rip:#x}")));
    put("info1", row.info1.map(|word| format!("{word:#x}")));
    put("info2", row.info2.map(|word| format!("{word:#x}")));
    put("intr_info", row.intr_info.map(|word| format!("{word:#x}")));
    put("error_code", row.error_code.map(|word| format!("{word:#x}")));
    put("requests", row.requests.map(|word| format!("{word:#x}")));
    put("ceded", row.ceded.map(|ceded| ceded.to_string()));
    put("errno", row.errno.map(|errno| errno.to_string()));
    put(row.subject_kind.unwrap_or(""), row.subject_key.map(|key| format!("{key:#x}")));
    put("direction", row.direction.map(str::to_string));
    put("size", row.size_bytes.map(|size| size.to_string()));
    put("value", row.value.map(|value| format!("{value:#x}")));
    put("handler", row.handler);
    put("vector", row.vector.map(|vector| format!("{vector:#x}")));
    put("halt_ns", row.halt_ns.map(|ns| ns.to_string()));
    put("waited", row.waited.map(|waited| waited.to_string()));
    put("valid", row.valid.filter(|valid| !valid).map(|valid| valid.to_string()));
    put("poll_ns", row.poll_ns.map(|poll| poll.to_string()));
    put("old_poll_ns", row.old_poll_ns.map(|poll| poll.to_string()));
    put("idle_cpu", row.idle_cpu.map(|cpu| cpu.to_string()));
    put("window", row.window.map(|window| window.to_string()));
    put("old_window", row.old_window.map(|window| window.to_string()));
    put("from", row.from.map(str::to_string));
    put("to", row.to.map(str::to_string));
    put("prev", row.prev.map(|tid| tid.to_string()));
    put("sleeps", row.sleeps.map(|sleeps| sleeps.to_string()));
    put("next", row.next.map(|tid| tid.to_string()));
    put("lost", row.lost.map(|lost| lost.to_string()));
    text.truncate(text.trim_end().len());
    text
}
