//! How a replay becomes a page.

use crate::names::thousands;
use crate::page::{Page, PageSection, Sentence, Table, column, plain};
use crate::replay::{Replay, ReplayRow};

/// The page of a replay.
pub fn replay_page(replay: &Replay) -> Page {
    let mut head = PageSection { title: format!("Replayed: {}", replay.policy), ..PageSection::default() };
    head.sentences.push(plain(format!("{}: {}", replay.trace.name, replay.over)));
    let selection = replay.selection.to_string();
    if !selection.is_empty() {
        head.sentences.push(plain(format!("Selected: {selection}")));
    }
    if !replay.in_force.is_empty() {
        let list: Vec<String> = replay.in_force.iter().map(|row| format!("{}={}", row.knob, row.value)).collect();
        head.sentences.push(plain(format!("In force when it was recorded: {}", list.join(", "))));
    }
    if let Some(decisions) = replay.decisions {
        head.sentences.push(plain(format!(
            "With these settings, the replay takes the kernel's decision after {} of {} halts (counted from each \
             vCPU's first traced change), and reproduces {} of {} traced changes with the same value",
            thousands(decisions.same),
            thousands(decisions.known),
            thousands(decisions.same_changes),
            thousands(decisions.changes),
        )));
    }
    head.sentences.extend(replay.damage().map(|line| Sentence { text: line.to_string(), warning: true }));
    let mut columns = vec![column("", true, 0)];
    columns.extend(replay.vary.iter().map(|axis| column(axis.key.clone(), false, 0)));
    for figure in &replay.figures {
        let is_best = replay.best_by.as_ref() == Some(figure);
        columns.push(column(figure.name.replace('_', " "), false, if is_best { 0 } else { figure.rank }));
    }
    let vary: Vec<&str> = replay.vary.iter().map(|axis| axis.key.as_str()).collect();
    let mut notes = Vec::new();
    if let Some(row) = replay.rows.iter().find(|row| row.in_force) {
        let how = if row.recorded { "with the recorded figures" } else { "replayed like the others" };
        notes.push(format!("r the settings in force when it was recorded, {how}"));
    }
    if replay.rows.iter().any(|row| row.recorded && !row.in_force) {
        notes
            .push("as recorded: what happened, not replayed; it differs from r by the error of the replay".to_string());
    }
    if let Some(best) = &replay.best_by {
        let direction = if best.higher_is_better { "highest" } else { "lowest" };
        notes.push(format!("* {direction} {}: {}", best.name.replace('_', " "), best.description));
    }
    notes.extend(replay.notes.iter().cloned());
    let rows = PageSection {
        title: format!("Figures by {}", vary.join(", ")),
        table: Some(Table { columns, rows: replay.rows.iter().map(|row| cells(replay, row)).collect() }),
        notes,
        say_hidden: true,
        ..PageSection::default()
    };
    Page { sections: vec![head, rows] }
}

fn cells(replay: &Replay, row: &ReplayRow) -> Vec<String> {
    let mark = match (row.in_force, row.best) {
        (true, true) => "*r",
        (true, false) => " r",
        (false, true) => "*",
        (false, false) => "",
    };
    let figures = replay.figures.iter().zip(&row.values);
    let figures = figures.map(|(figure, value)| value.map_or("-".to_string(), |value| figure.text(value)));
    [mark.to_string()].into_iter().chain(row.labels.iter().cloned()).chain(figures).collect()
}
