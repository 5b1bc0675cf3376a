//! The report of a recording that the user asked for, as text to scroll through.

use crate::list::{elided, wrapped};
use exitscope_model::encode;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::Stylize;
use ratatui::text::Line;
use ratatui::widgets::{Clear, Paragraph};
use std::path::PathBuf;

/// Lines that Page Up and Page Down leave of what was shown.
const OVERLAP: usize = 2;

/// A report's text, and where in it the user is.
#[derive(Clone, Debug, Default)]
pub struct ReportText {
    /// The recording.
    pub file: PathBuf,
    lines: Vec<String>,
    /// Whether it is all of the report; else the 24 lines of the answer.
    pub is_all: bool,
    /// The user wants the other one.
    pub wants_other: bool,
    top: usize,
    /// Lines that there was room for when it was last drawn.
    room: usize,
}

impl ReportText {
    pub fn new(file: PathBuf, text: &str, is_all: bool) -> ReportText {
        // Nothing in it may act on the screen.
        let lines = text.lines().map(|line| encode::line(line).into_owned()).collect();
        ReportText { file, lines, is_all, ..ReportText::default() }
    }

    /// Does what a key is for; false if the report is left.
    pub fn key(&mut self, code: KeyCode) -> bool {
        let page = self.room.saturating_sub(OVERLAP).max(1);
        match code {
            KeyCode::Char('q') | KeyCode::Esc | KeyCode::Backspace | KeyCode::Left | KeyCode::F(10) => return false,
            KeyCode::Char('a') => self.wants_other = true,
            KeyCode::Up | KeyCode::Char('k') => self.top = self.top.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') | KeyCode::Enter => self.top += 1,
            KeyCode::PageUp | KeyCode::Char('b') => self.top = self.top.saturating_sub(page),
            KeyCode::PageDown | KeyCode::Char(' ') => self.top += page,
            KeyCode::Home | KeyCode::Char('g') => self.top = 0,
            KeyCode::End | KeyCode::Char('G') => self.top = usize::MAX,
            _ => {}
        }
        self.top = self.top.min(self.last_top());
        true
    }

    /// The first line of the last screen.
    fn last_top(&self) -> usize {
        self.lines.len().saturating_sub(self.room.max(1))
    }

    /// Draws it over all else.
    pub fn draw(&mut self, to: &mut ratatui::Frame) {
        let file = encode::line(&self.file.to_string_lossy()).into_owned();
        let name = file.strip_suffix(".perf.data").unwrap_or(&file);
        let page = format!("as a page: exitscope report {file} --html {name}.html");
        let page: Vec<Line> = wrapped(&page, to.area().width).into_iter().map(Line::from).collect();
        let [head, html, text, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(page.len() as u16),
            Constraint::Fill(1),
            Constraint::Length(1),
        ])
        .areas(to.area());
        self.room = usize::from(text.height);
        self.top = self.top.min(self.last_top());
        to.render_widget(Clear, to.area());
        to.render_widget(Line::from(elided(&format!("recorded: {file}"), head.width)).bold(), head);
        to.render_widget(Paragraph::new(page), html);
        let shown = self.lines.iter().skip(self.top).take(self.room);
        let lines: Vec<Line> = shown.map(|line| Line::from(elided(line, text.width))).collect();
        let end = self.top + lines.len();
        to.render_widget(Paragraph::new(lines), text);
        let other = if self.is_all { "the answer alone" } else { "all of the report" };
        let keys = format!(
            "q back   arrows PgUp PgDn   a {other}   lines {} to {end} of {}",
            (self.top + 1).min(self.lines.len()),
            self.lines.len()
        );
        to.render_widget(Line::from(elided(&keys, foot.width)).bold(), foot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    #[test]
    fn a_report_is_scrolled_to_its_last_line_and_no_further() {
        let text: String = (1..=30).map(|line| format!("line {line}\u{1b}[2J\n")).collect();
        let mut report = ReportText::new("web.perf.data".into(), &text, false);
        let mut terminal = Terminal::new(TestBackend::new(80, 13)).unwrap();
        let mut seen = |report: &mut ReportText| {
            terminal.draw(|to| report.draw(to)).unwrap();
            terminal.backend().to_string()
        };
        let first = seen(&mut report);
        assert!(
            first.contains("line 1\u{fffd}[2J") && first.contains("line 10") && !first.contains("line 11"),
            "{first}"
        );
        assert!(first.contains("exitscope report web.perf.data --html web.html"), "{first}");
        for (keys, shown) in [
            (&[KeyCode::Down][..], "lines 2 to 11 of 30"),
            (&[KeyCode::PageDown], "lines 10 to 19 of 30"),
            (&[KeyCode::End], "lines 21 to 30 of 30"),
            (&[KeyCode::Down, KeyCode::PageDown], "lines 21 to 30 of 30"),
            (&[KeyCode::PageUp], "lines 13 to 22 of 30"),
            (&[KeyCode::Home, KeyCode::Up], "lines 1 to 10 of 30"),
        ] {
            assert!(keys.iter().all(|key| report.key(*key)));
            let screen = seen(&mut report);
            assert!(screen.contains(shown), "{keys:?}: {shown} is not on\n{screen}");
        }
        assert!(!report.key(KeyCode::Esc) && !report.key(KeyCode::Char('q')));
        assert!(report.key(KeyCode::Char('a')) && report.wants_other);
    }
}
