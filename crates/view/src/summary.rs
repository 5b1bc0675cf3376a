//! A report in 24 lines of a terminal: the verdict first, then what it is of.
//!
//! ```text
//! title · verdict · best change │ bar of all vCPU time │ VMs │ causes │ slowest exits │ coverage · what shows more
//! ```

use crate::advice::{AdviceReport, AdvisedCauseRow};
use crate::names::{percent, plural, rate, share, thousands};
use crate::page::{Table, column, if_told, is_told, length};
use crate::palette::{part_character, part_colour};
use crate::report::{GroupRow, Report, SlowExitRow, VcpuRow};
use crate::text::{MOST_USED_WIDTH, TerminalStyle, painted, written_table};
use anstyle::{AnsiColor, Color, Style};
use exitscope_analysis::is_part;
use exitscope_model::encode::line;
use exitscope_model::{LedgerLine, SIMULATED, TimePart, least_vms};
use exitscope_units::{Nanos, VcpuId};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Lines of a terminal.
const LINES: usize = 24;

/// How much of each part is shown.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// Lines of the answer.
    pub sentence: usize,
    pub vms: usize,
    pub causes: usize,
    pub slowest: usize,
}

const fn plan(sentence: usize, vms: usize, causes: usize, slowest: usize) -> Plan {
    Plan { sentence, vms, causes, slowest }
}

/// The first of these that fits is taken.
const PLANS: [Plan; 8] = [
    plan(3, 5, 8, 8),
    plan(3, 5, 5, 3),
    plan(3, 5, 5, 2),
    plan(3, 5, 4, 1),
    plan(3, 4, 4, 0),
    plan(3, 3, 3, 0),
    plan(2, 2, 2, 0),
    plan(1, 2, 1, 0),
];

/// Characters of a cause at most, and of a VM's name.
const CAUSE: usize = 44;
const NAME: usize = 28;

/// Columns of a question, with the blanks after it.
pub(crate) const QUESTION: usize = 15;

/// Columns of a terminal that are used at most, and from which on two tables stand side by side.
const WIDEST: usize = 200;
const SIDE_BY_SIDE: usize = 170;

/// Columns that figures need beside a cause.
const BESIDE: usize = 36;

const BOLD: Style = Style::new().bold();
const GOOD: Style = BOLD.fg_color(Some(Color::Ansi(AnsiColor::Green)));
const DOUBTFUL: Style = BOLD.fg_color(Some(Color::Ansi(AnsiColor::Yellow)));

/// Writes the summary. `advised` is what rules made of the recording, if they looked at it; `name` is what the user calls the
/// recording, for the commands that show more.
pub fn write_summary(
    report: &Report,
    advised: Option<&AdviceReport>,
    name: &str,
    look: TerminalStyle,
    out: &mut dyn Write,
) -> io::Result<()> {
    let width = look.width.unwrap_or(MOST_USED_WIDTH).min(WIDEST);
    let look = TerminalStyle { width: Some(width), ..look };
    let made = |plan| FirstScreen { report, advised, name, look, width, plan }.parts();
    let lines = |parts: &[Vec<String>]| parts.iter().map(Vec::len).sum::<usize>();
    let [.., least] = PLANS;
    let parts = PLANS.into_iter().map(made).find(|parts| lines(parts) <= LINES).unwrap_or_else(|| made(least));
    let is_spaced = lines(&parts) + parts.len() - 1 <= LINES;
    for (at, lines) in parts.iter().enumerate() {
        if at > 0 && is_spaced {
            writeln!(out)?;
        }
        lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    Ok(())
}

pub(crate) struct FirstScreen<'a> {
    pub report: &'a Report,
    pub advised: Option<&'a AdviceReport>,
    pub name: &'a str,
    pub look: TerminalStyle,
    pub width: usize,
    pub plan: Plan,
}

impl FirstScreen<'_> {
    /// What belongs together, line by line.
    fn parts(&self) -> Vec<Vec<String>> {
        let mut left_out = Vec::new();
        let mut parts = vec![self.head(), self.bar()];
        parts.push(self.vms(&mut left_out));
        match self.width >= SIDE_BY_SIDE {
            true => {
                let width = self.width / 2;
                let half = FirstScreen { look: TerminalStyle { width: Some(width), ..self.look }, width, ..*self };
                parts.push(beside(half.causes(&mut left_out), half.slowest(&mut left_out), width));
            }
            false => parts.extend([self.causes(&mut left_out), self.slowest(&mut left_out)]),
        }
        parts.push(self.rest(&left_out));
        parts.retain(|lines| !lines.is_empty());
        parts
    }

    /// The answer, the bar, and what costs most: what is worth a mail.
    pub fn answer_parts(&self) -> Vec<Vec<String>> {
        let mut left_out = Vec::new();
        let answer = self.head().into_iter().skip(1).collect();
        vec![answer, self.bar(), self.vms(&mut left_out), self.causes(&mut left_out)]
    }

    /// What was recorded, the answer, what to change, and what makes that doubtful.
    fn head(&self) -> Vec<String> {
        let verdict = &self.report.verdict;
        let style = match (verdict.is_doubtful, verdict.is_good) {
            (true, _) => DOUBTFUL,
            (_, true) => GOOD,
            _ => BOLD,
        };
        let mut lines = vec![self.clipped(&self.title())];
        lines.extend(self.sentence(&verdict.text).iter().map(|text| painted(text, style, self.look)));
        lines.extend(self.answers().iter().flat_map(|(question, answer)| self.answered(question, answer)));
        lines
    }

    /// What a reader asks next, and the answers.
    fn answers(&self) -> Vec<(&'static str, String)> {
        let verdict = &self.report.verdict;
        let mut answers = Vec::new();
        answers.extend(verdict.amount.iter().map(|amount| ("Is that much?", amount.clone())));
        answers.extend(verdict.worst_vcpu.iter().map(|worst| ("Worst vCPU", worst.clone())));
        match (&verdict.best_change, self.advised) {
            (Some(best), Some(_)) => {
                // Of one VM, nobody asks whose it is.
                let vms: BTreeSet<_> = self.report.vcpus.iter().map(|row| row.who.vm).collect();
                let is_of_one = vms.len() > 1 && best.scope != "the host";
                let whose = if is_of_one { format!(", for {}", best.scope) } else { String::new() };
                answers.push(("Best change", format!("[{}] {}{whose}", best.advice, best.title)));
                answers.push(("Gain", best.gain.clone()));
                answers.push(("Risk", best.risk.clone()));
            }
            (None, Some(_)) if verdict.share.is_some() => {
                answers.push(("Change", "none is advised".to_string()));
            }
            _ => {}
        }
        match &verdict.sure {
            Some(sure) => answers.push(("How sure?", sure.clone())),
            None if verdict.doubts.is_empty() => {}
            None => answers.push(("Doubtful", verdict.doubts.join("; "))),
        }
        answers.extend((!verdict.not_seen.is_empty()).then(|| ("Not seen", verdict.not_seen.join("; "))));
        answers.extend(verdict.exit_bound.as_ref().map(|bound| ("Not judged", bound.names())));
        answers
    }

    /// An answer beside its question, on as many lines as it takes.
    pub fn answered(&self, question: &str, answer: &str) -> Vec<String> {
        let lines = filled(answer.split(' ').map(str::to_string), " ", self.width.saturating_sub(QUESTION));
        let beside = |(at, line): (usize, String)| {
            let question = if at == 0 { question } else { "" };
            let style = if question == "Doubtful" { DOUBTFUL } else { BOLD };
            format!("{}{}{line}", painted(question, style, self.look), " ".repeat(QUESTION - question.len()))
        };
        lines.into_iter().enumerate().map(beside).collect()
    }

    /// What was recorded.
    pub fn title(&self) -> String {
        let Report { traces, vcpus, total, .. } = self.report;
        let vms = self.by_vm();
        let numbers = |rows: &[&VcpuRow]| rows.iter().filter_map(|row| row.who.vcpu).map(VcpuId).collect::<Vec<_>>();
        let whose = match &vms[..] {
            [(_, rows)] if rows.iter().all(|row| row.who.vm.is_none()) => match least_vms(numbers(rows)) {
                1 => "VM without a name".to_string(),
                least => format!("at least {least} VMs without names"),
            },
            [(label, _)] if self.report.is_xen() => format!("domain {}", shortened(label, NAME)),
            [(label, _)] => shortened(label, NAME),
            vms => many(vms.len(), "VM"),
        };
        let mut words = vec![whose, many(vcpus.len(), "vCPU")];
        let selected = self.report.selection.to_string();
        words.extend((!selected.is_empty()).then(|| format!("selected: {selected}")));
        if let [trace] = &traces[..] {
            words.extend(match (trace.is_xen(), trace.release.as_str()) {
                (true, "") => Some("Xen".to_string()),
                (false, "") => None,
                (true, release) => Some(release.to_string()),
                (false, SIMULATED) => Some("simulated".to_string()),
                (false, release) => Some(format!("Linux {release}")),
            });
            words.extend(Some(trace.arch.clone()).filter(|arch| !arch.is_empty()));
        } else {
            words.push(many(traces.len(), "recording"));
        }
        let duration = self.report.duration_ns;
        let seen = vcpus.iter().map(|row| row.span_ns).max().unwrap_or_default();
        words.push(match vms.len() == 1 && is_part(seen, duration) {
            true => format!("{} of {}", Nanos(seen), Nanos(duration)),
            false => Nanos(duration).to_string(),
        });
        // Of a host whose KVM fires no kvm_exit, those that the kernel handles are not seen.
        let beyond = self.report.coverage.lines.iter().any(|line| line.id == LedgerLine::NoKvmExit.id());
        let to = if beyond { "exits to user space" } else { "exits" };
        words.push(format!("{} {to}", thousands(total.count)));
        words.join(if self.look.unicode { " · " } else { ", " })
    }

    /// All vCPU time by its parts: a bar, and what its characters are.
    fn bar(&self) -> Vec<String> {
        let of = |part: TimePart| self.report.vcpus.iter().map(|row| u128::from(row.times.get(part))).sum::<u128>();
        let parts: Vec<(TimePart, u128)> =
            TimePart::ALL.into_iter().map(|part| (part, of(part))).filter(|(_, time)| *time > 0).collect();
        let all: u128 = parts.iter().map(|(_, time)| time).sum();
        // Where no exit has an end, no part of the time is known.
        if all == 0 || self.report.coverage.timed_exits == 0 {
            return Vec::new();
        }
        let (mut bar, mut before) = (String::new(), 0u128);
        for (part, time) in &parts {
            let end = |time: u128| (time * self.width as u128 / all) as usize;
            let cells = end(before + time) - end(before);
            before += time;
            let (fill, style) = self.fill(*part);
            bar.push_str(&painted(&fill.to_string().repeat(cells), style, self.look));
        }
        let word = |(part, time): &(TimePart, u128)| {
            let name = match part {
                TimePart::User if self.report.is_xen() => "device model",
                TimePart::Kernel if self.report.is_xen() => "Xen",
                part => part.name(),
            };
            format!("{} {name} {}", self.fill(*part).0, share(*time as f64 / all as f64))
        };
        let mut lines = vec![bar];
        lines.extend(self.filled(parts.iter().map(word), "  "));
        // Colours take no room: they come when all words have their place.
        for part in parts.iter() {
            let (fill, style) = self.fill(part.0);
            let (plain, coloured) = (word(part), painted(&fill.to_string(), style, self.look));
            for line in lines.iter_mut().skip(1) {
                *line = line.replacen(&plain, &plain.replacen(fill, &coloured, 1), 1);
            }
        }
        lines
    }

    /// What a part of the bar is drawn with.
    fn fill(&self, part: TimePart) -> (char, Style) {
        let colour = Color::Ansi256(part_colour(part).into());
        (part_character(part, self.look.unicode), Style::new().fg_color(Some(colour)))
    }

    /// vCPUs by VM, costliest first.
    fn by_vm(&self) -> Vec<(String, Vec<&VcpuRow>)> {
        let mut vms: BTreeMap<(Option<u32>, String), Vec<&VcpuRow>> = BTreeMap::new();
        for row in &self.report.vcpus {
            vms.entry((row.who.vm, row.who.vm_label())).or_default().push(row);
        }
        let mut vms: Vec<(String, Vec<&VcpuRow>)> = vms.into_iter().map(|((_, label), rows)| (label, rows)).collect();
        vms.sort_by_key(|(_, rows)| Reverse(rows.iter().filter_map(|row| row.cost_ns).fold(0, u64::saturating_add)));
        vms
    }

    fn vms(&self, left_out: &mut Vec<String>) -> Vec<String> {
        let vms = self.by_vm();
        if vms.len() < 2 {
            return Vec::new();
        }
        let most = self.plan.vms;
        let mut columns = vec![
            column(counted("VM", most, vms.len()), true, 0),
            column("vCPUs", false, 3),
            column("guest", false, 1),
            column("cost", false, 0),
            column("polling", false, 2),
            column("halted", false, 1),
            column("steal", false, 0),
            column("exits", false, 2),
        ];
        // Recordings follow each other, or do not.
        let is_one = self.report.traces.len() == 1;
        columns.extend(is_one.then(|| column("exits/s", false, 1)));
        let row = |(label, rows): &(String, Vec<&VcpuRow>)| {
            let sum = |of: &dyn Fn(&VcpuRow) -> u64| rows.iter().map(|row| of(row)).fold(0, u64::saturating_add);
            let wall = sum(&|row| row.span_ns);
            let of = |part: TimePart| sum(&|row| row.times.get(part));
            let part = |part: TimePart| if_told(is_told(self.report, part, &of), percent(of(part), wall));
            let cost = percent(sum(&|row| row.cost_ns.unwrap_or(0)), wall);
            let exits = sum(&|row| row.exits);
            let longest = rows.iter().map(|row| row.span_ns).max().unwrap_or(0);
            let mut cells = vec![
                shortened(label, NAME),
                thousands(rows.len() as u64),
                part(TimePart::Guest),
                if_told(self.report.coverage.timed_exits > 0, cost),
                part(TimePart::Polling),
                part(TimePart::Halted),
                part(TimePart::Steal),
                thousands(exits),
            ];
            let per_s = || if longest == 0 { "-".to_string() } else { rate(exits as f64 * 1e9 / longest as f64) };
            cells.extend(is_one.then(per_s));
            cells
        };
        self.table(Table { columns, rows: vms.iter().take(most).map(row).collect() }, left_out)
    }

    fn causes(&self, left_out: &mut Vec<String>) -> Vec<String> {
        let causes = &self.report.causes;
        if causes.is_empty() {
            return self.reasons(left_out);
        }
        let mut shown: Vec<&AdvisedCauseRow> = causes.iter().collect();
        shown.sort_by_key(|row| Reverse(row.time_ns));
        let most = self.plan.causes;
        shown.truncate(most);
        let other = self.other_causes(&shown);
        let mut columns = vec![
            column(counted("cause", most, causes.len()), true, 0),
            column("vCPU time", false, 0),
            column("exits", false, 1),
            column("exit p50", false, 2),
            column("exit p99", false, 2),
        ];
        columns.extend(self.advised.map(|_| column("advice, gain", true, 0)));
        let row = |row: &AdvisedCauseRow| {
            let mut cells = vec![
                shortened(&named(row), self.most()),
                share(row.share_of_time),
                if row.exits == 0 { "-".to_string() } else { thousands(row.exits) },
                length(row.p50_ns),
                length(row.p99_ns),
            ];
            cells.extend(self.advised.map(|_| row.brief.clone()));
            cells
        };
        self.table(Table { columns, rows: shown.into_iter().map(row).chain(other).collect() }, left_out)
    }

    /// What takes vCPU time besides these causes, so that the rows add up to all but the guest's time and what is halted.
    fn other_causes(&self, shown: &[&AdvisedCauseRow]) -> Option<Vec<String>> {
        const PARTS: [TimePart; 6] = [
            TimePart::Kernel,
            TimePart::User,
            TimePart::Polling,
            TimePart::Steal,
            TimePart::Undivided,
            TimePart::Unknown,
        ];
        let vcpus = &self.report.vcpus;
        let all: u64 = vcpus.iter().flat_map(|row| PARTS.map(|part| row.times.get(part))).fold(0, u64::saturating_add);
        let wall = vcpus.iter().map(|row| row.span_ns).fold(0, u64::saturating_add);
        // Of forced exits, the time is that of other rows' exits.
        let own = shown.iter().filter(|row| row.kind != "forced_out");
        let (time, exits) = own.fold((0_u64, 0_u64), |(time, exits), row| {
            (time.saturating_add(row.time_ns), exits.saturating_add(row.exits))
        });
        let (time, exits) = (all.checked_sub(time)?, self.report.total.count.saturating_sub(exits));
        let count = if exits == 0 { "-".to_string() } else { thousands(exits) };
        let mut cells = vec!["other".to_string(), percent(time, wall), count, "-".to_string(), "-".to_string()];
        cells.extend(self.advised.map(|_| String::new()));
        (time > 0 || exits > 0).then_some(cells)
    }

    /// Where no exit has a length: how many there are.
    fn reasons(&self, left_out: &mut Vec<String>) -> Vec<String> {
        let mut rows: Vec<_> = self.report.rows.iter().filter(|row| row.figures.count > 0).collect();
        rows.sort_by_key(|row| Reverse(row.figures.count));
        let columns = vec![column("exit reason", true, 0), column("exits", false, 0), column("share", false, 0)];
        let row = |row: &&GroupRow| {
            let name = shortened(&row.place.labels.join(" "), self.most());
            let count = row.figures.count;
            vec![name, thousands(count), percent(count, self.report.total.count)]
        };
        self.table(Table { columns, rows: rows.iter().take(self.plan.causes).map(row).collect() }, left_out)
    }

    fn slowest(&self, left_out: &mut Vec<String>) -> Vec<String> {
        let told = &self.report.event_kinds;
        let columns = vec![
            column("slowest, by cost and steal", true, 0),
            column("cost", false, 0),
            column("steal", false, 1),
            column("at", false, 0),
            column("vCPU", true, 1),
            column("VM", true, 2),
        ];
        let is_one = self.by_vm().len() == 1;
        let row = |row: &SlowExitRow| {
            let about = row.subject.as_ref().map_or(String::new(), |detail| format!(": {detail}"));
            vec![
                shortened(&format!("{}{about}", row.reason), self.most()),
                length(Some(row.times.kernel_ns.saturating_add(row.times.user_space_ns))),
                if_told(told.tells_steal(row.times.steal_ns), length(Some(row.times.steal_ns))),
                self.report.moment(row.at_ns, Nanos(1_000)),
                row.who.vcpu_label(),
                if is_one { String::new() } else { shortened(&row.who.vm_label(), NAME) },
            ]
        };
        let rows: Vec<Vec<String>> = self.report.slowest.iter().take(self.plan.slowest).map(row).collect();
        if rows.is_empty() { Vec::new() } else { self.table(Table { columns, rows }, left_out) }
    }

    /// How many events there were, and what of them is missing.
    pub fn coverage(&self) -> String {
        let Report { coverage, verdict, .. } = self.report;
        let mut words = vec![
            format!("{} events", thousands(coverage.events)),
            match coverage.lost {
                Some(0) => "none lost".to_string(),
                Some(lost) => format!("{} lost", thousands(lost)),
                None => "losses unknown".to_string(),
            },
        ];
        words.extend(coverage.truncated.then(|| "a part is missing".to_string()));
        let overlapping = coverage.lines.iter().find(|line| line.id == LedgerLine::Overlapping.id());
        words.extend(overlapping.map(|line| format!("{} in several files, counted once", thousands(line.count))));
        if verdict.sure.is_some() {
            words.extend(verdict.doubts.iter().cloned());
        }
        let damage = coverage.damage().filter(|line| !line.is_cut()).count();
        let notes = coverage.lines.iter().filter(|line| line.severity == "notice").count();
        let not_judged = self.advised.map_or(0, |advised| advised.not_judged.len());
        for (count, what, not) in [(damage, "warning", ""), (notes, "note", ""), (not_judged, "rule", " not judged")] {
            words.extend((count > 0).then(|| format!("{}{not}", many(count, what))));
        }
        words.extend(self.advised.is_none().then(|| "no advice: it needs one whole recording".to_string()));
        words.join(", ")
    }

    /// The recordings as a command takes them.
    pub fn files(&self) -> String {
        let hz = self.report.traces.iter().find_map(|trace| trace.given_hz);
        format!("{}{}", self.name, hz.map_or(String::new(), |hz| format!(" --tsc-hz {hz}")))
    }

    /// Coverage, and what shows more.
    fn rest(&self, left_out: &[String]) -> Vec<String> {
        let advise = if self.advised.is_some() { "advise, " } else { "" };
        let too_narrow = match left_out {
            [] => String::new(),
            titles => format!("No room for {}: see report --all. ", titles.join(", ")),
        };
        let more =
            format!("{too_narrow}More: exitscope {advise}report --all or report --html OUT, with {}", self.files());
        // What makes figures doubtful stands at its end: it is wrapped, never cut.
        let mut lines = self.filled(format!("Coverage: {}", self.coverage()).split(' ').map(str::to_string), " ");
        // Names stay whole: they are to be copied.
        lines.extend(self.filled(more.split(' ').map(str::to_string), " "));
        lines
    }

    fn table(&self, table: Table, left_out: &mut Vec<String>) -> Vec<String> {
        let (lines, hidden) = written_table(&table, self.look);
        for title in hidden {
            if !left_out.contains(&title) {
                left_out.push(title);
            }
        }
        // The first blank is a cell's.
        let mut lines = lines.into_iter().map(|line| line.strip_prefix(' ').unwrap_or(&line).to_string());
        let head = lines.next().map(|head| painted(&head, BOLD, self.look));
        head.into_iter().chain(lines).collect()
    }

    /// A sentence on as many lines as it may have.
    fn sentence(&self, text: &str) -> Vec<String> {
        let mut lines = self.filled(text.split(' ').map(str::to_string), " ");
        if lines.len() > self.plan.sentence {
            lines.truncate(self.plan.sentence);
            let end = ellipsis(self.look);
            let last = lines.last_mut().into_iter();
            last.for_each(|last| {
                while !last.is_empty() && last.chars().count() + end.chars().count() > self.width {
                    last.truncate(last.rfind(' ').unwrap_or(0));
                }
                last.push_str(end);
            });
        }
        lines
    }

    /// Characters of a cause at most, so that figures have room beside it.
    fn most(&self) -> usize {
        CAUSE.min(self.width.saturating_sub(BESIDE))
    }

    fn clipped(&self, text: &str) -> String {
        let text = line(text);
        if text.chars().count() <= self.width { text.into_owned() } else { cut(&text, self.width, self.look) }
    }

    fn filled(&self, words: impl Iterator<Item = String>, between: &str) -> Vec<String> {
        filled(words, between, self.width)
    }
}

/// Words on lines of so many columns, with this between.
fn filled(words: impl Iterator<Item = String>, between: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        let word = line(&word).into_owned();
        let length = word.chars().count();
        match lines.last_mut() {
            Some(last) if last.chars().count() + between.len() + length <= width => {
                last.push_str(between);
                last.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// Two tables side by side, the second from this column on.
fn beside(left: Vec<String>, right: Vec<String>, column: usize) -> Vec<String> {
    let rows = left.len().max(right.len());
    let (mut left, mut right) = (left.into_iter(), right.into_iter());
    let row = |_| {
        let (left, right) = (left.next().unwrap_or_default(), right.next().unwrap_or_default());
        let blanks = column.saturating_sub(columns(&left));
        let row = format!("{left}{}{right}", " ".repeat(blanks));
        row.trim_end().to_string()
    };
    (0..rows).map(row).collect()
}

/// Columns that a line takes on a terminal: what sets its colours takes none.
fn columns(line: &str) -> usize {
    let mut in_escape = false;
    let shown = |c: &char| {
        let is_shown = !in_escape && *c != '\u{1b}';
        in_escape = (in_escape || *c == '\u{1b}') && *c != 'm';
        is_shown
    };
    line.chars().filter(shown).count()
}

fn ellipsis(look: TerminalStyle) -> &'static str {
    if look.unicode { "…" } else { "..." }
}

/// The beginning of a text that is longer than so many characters.
fn cut(text: &str, width: usize, look: TerminalStyle) -> String {
    let end = ellipsis(look);
    let kept: String = text.chars().take(width.saturating_sub(end.chars().count())).collect();
    format!("{kept}{end}")
}

/// `1 VM`, `1,234 VMs`.
fn many(count: usize, what: &str) -> String {
    format!("{} {}", thousands(count as u64), plural(count as u64, what))
}

/// What a list is of, and how much of it is shown: `cause`, `cause (5 of 6)`.
fn counted(what: &str, shown: usize, all: usize) -> String {
    if all > shown { format!("{what} ({shown} of {})", thousands(all as u64)) } else { what.to_string() }
}

/// A long name without its middle.
fn shortened(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.to_string();
    }
    let (head, tail) = (most.div_ceil(2).saturating_sub(1), (most / 2).saturating_sub(1));
    let begin: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(length - tail).collect();
    format!("{begin}..{end}")
}

/// A cause's name; what is a part of other rows' exits says so.
fn named(row: &AdvisedCauseRow) -> String {
    match row.kind {
        "forced_out" => "forced out (part of these exits)".to_string(),
        _ => row.named(": "),
    }
}
