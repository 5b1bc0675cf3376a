//! A report as plain text for a mailing list: the first screen in 72 columns of ASCII, and what it is of.
//!
//! Documentation/process/email-clients.rst: plain text, and no lines that a mail program wraps.

use crate::advice::AdviceReport;
use crate::report::{Report, TraceRow};
use crate::summary::{FirstScreen, Plan, QUESTION};
use crate::text::TerminalStyle;

/// Columns of a mail: what is quoted a few times still fits into 80.
const WIDTH: usize = 72;

/// What a mail has of each list.
const PLAN: Plan = Plan { sentence: usize::MAX, vms: 8, causes: 6, slowest: 0 };

/// The text. `advised` is what rules made of the recording, if they looked at it; `name` is what the user calls the recording.
pub fn mail_text(report: &Report, advised: Option<&AdviceReport>, name: &str) -> String {
    let look = TerminalStyle { width: Some(WIDTH), colour: false, unicode: false };
    let summary = FirstScreen { report, advised, name, look, width: WIDTH, plan: PLAN };
    let mut parts = summary.answer_parts();
    parts.push(of_what(report, &summary));
    let parts = parts.into_iter().filter(|lines| !lines.is_empty()).map(|lines| lines.join("\n"));
    ascii(&parts.collect::<Vec<String>>().join("\n\n")) + "\n"
}

/// Host, kernel, VM, coverage and the command that shows it again.
fn of_what(report: &Report, summary: &FirstScreen<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for trace in &report.traces {
        lines.extend(summary.answered("Host", &host(trace)));
        lines.extend(summary.answered("Kernel", &kernel(trace)));
    }
    lines.extend(summary.answered("Recording", &summary.title()));
    lines.extend(summary.answered("Coverage", &summary.coverage()));
    // It is to be copied: it stays whole.
    lines.push(format!("{:<QUESTION$}exitscope report {}", "Command", summary.files()));
    lines
}

fn host(trace: &TraceRow) -> String {
    let cpus = (trace.cpus > 0).then(|| format!("{} CPUs", trace.cpus));
    let words = [Some(trace.hostname.clone()), Some(trace.cpu.clone()), cpus, Some(trace.arch.clone())];
    let words: Vec<String> = words.into_iter().flatten().filter(|word| !word.is_empty()).collect();
    if words.is_empty() { "not recorded".to_string() } else { words.join(", ") }
}

fn kernel(trace: &TraceRow) -> String {
    match (trace.is_xen(), trace.release.as_str()) {
        (true, "") => "Xen, release not recorded".to_string(),
        (false, "") => "not recorded".to_string(),
        (true, release) => release.to_string(),
        (false, release) => format!("Linux {release}"),
    }
}

/// The text without what a mail program may not show.
fn ascii(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_ascii() => plain.push(c),
            '…' => plain.push_str("..."),
            'µ' | 'μ' => plain.push('u'),
            '–' | '—' => plain.push('-'),
            _ => plain.push('?'),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_ascii_is_replaced() {
        assert_eq!(ascii("a… 3 µs – Müller"), "a... 3 us - M?ller");
    }
}
