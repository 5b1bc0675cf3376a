//! What the keys do, and what the figures are.

use crate::choices::ListOrder;
use crate::frame::Frame;
use ratatui::style::Stylize;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};

const KEYS: &[(&str, &str)] = &[
    ("arrows j k PgUp PgDn", "select a VM or vCPU"),
    ("Enter, Esc", "look into it, and back; Esc again shows details of all VMs"),
    ("Tab", "next list: reasons; ports, MSRs, …; halts; gang exits"),
    ("s S", "sort by the next or former column"),
    ("o F2", "choose columns; says what each is"),
    ("/", "filter by name or PID; Esc shows all"),
    ("v", "list vCPUs, or only VMs"),
    ("R", "record the selected VM, or all, for 5 s; show the report"),
    ("p Space", "pause, and go on"),
    ("q", "quit; a recording ends and is whole"),
];

/// Draws it over all else.
pub fn draw(to: &mut ratatui::Frame, frame: &Frame) {
    let mut lines: Vec<Line> = vec![Line::from("exitscope top: keys and columns").bold(), Line::default()];
    let key = |(key, what): &(&'static str, &'static str)| {
        Line::from(vec![Span::from(format!("{key:<22}")).bold(), (*what).into()])
    };
    lines.extend(KEYS.iter().map(key));
    let (keys, names): (Vec<String>, Vec<&str>) =
        ListOrder::ALL.into_iter().map(|(key, order)| (key.to_string(), order.name())).unzip();
    lines.push(Line::from(vec![
        Span::from(format!("{:<22}", keys.join(" "))).bold(),
        format!("sort by {}", names.join(", ")).into(),
    ]));
    lines.push(Line::default());
    let mut say = |text: &'static str| lines.push(Line::from(text));
    say("cost     share of wall time in exits, in KVM and in user space: nothing else");
    say("steal    share in which threads were runnable and had no CPU");
    say("         cost, guest, polling, halted, steal and others add up to all");
    say("p99      99 % of exits were shorter; halts left out");
    if !frame.has_kvm_exit {
        say("kvm_exit does not fire on this host: only exits to user space have a length;");
        say("exits that the kernel handles are counted as far as its events show them.");
    }
    say("The first line is the verdict on the last 10 intervals; other figures are of");
    say("the last. The timeline of the selected row needs 120 columns. Any key: back.");
    to.render_widget(Clear, to.area());
    to.render_widget(Paragraph::new(lines), to.area());
}
