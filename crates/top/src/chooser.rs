//! The list of all columns, in which the user chooses.

use crate::columns::{ColumnChoice, TopColumn};
use crate::list::{elided, width};
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::Clear;

/// Which column is selected, while they are listed.
#[derive(Clone, Debug, Default)]
pub struct Chooser {
    at: usize,
}

impl Chooser {
    /// Does what a key is for; false if the list is left.
    pub fn key(&mut self, code: KeyCode, columns: &mut ColumnChoice) -> bool {
        let last = TopColumn::all().len() - 1;
        match code {
            KeyCode::Up | KeyCode::Char('k') => self.at = self.at.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.at = (self.at + 1).min(last),
            KeyCode::Home | KeyCode::PageUp => self.at = 0,
            KeyCode::End | KeyCode::PageDown => self.at = last,
            KeyCode::Char(' ') => TopColumn::all().nth(self.at).into_iter().for_each(|id| columns.toggle(id)),
            KeyCode::Char('d') => *columns = ColumnChoice::default(),
            KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace | KeyCode::Left | KeyCode::F(2) => return false,
            KeyCode::Char('q' | 'o') => return false,
            _ => {}
        }
        true
    }

    /// Draws the list over all else; those of `hidden` have no room at the moment, and of
    /// those that are not `shown` no row has any.
    pub fn draw(&self, to: &mut ratatui::Frame, columns: &ColumnChoice, shown: &[TopColumn], hidden: &[TopColumn]) {
        let [title, list, _, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(TopColumn::all().len() as u16),
            Constraint::Fill(1),
            Constraint::Length(1),
        ])
        .areas(to.area());
        to.render_widget(Clear, to.area());
        to.render_widget(Line::from("exitscope top: columns").bold(), title);
        let names = TopColumn::all().map(|id| width(id.name())).max().map_or(0, usize::from);
        let first = (self.at + 1).saturating_sub(usize::from(list.height));
        for ((at, id), row) in TopColumn::all().enumerate().skip(first).zip(list.rows()) {
            let mark = if columns.has(id) { 'x' } else { ' ' };
            let place = match () {
                () if !columns.has(id) => "",
                () if hidden.contains(&id) => "hidden",
                () if !shown.contains(&id) && id.part().is_some() => "none",
                () if !shown.contains(&id) => "hidden",
                () => "",
            };
            let text = format!("[{mark}] {:<names$}  {place:<8}{}", id.name(), id.help());
            let style = if at == self.at { Style::new().reversed() } else { Style::new() };
            to.render_widget(Line::from(elided(&text, row.width)).style(style), row);
        }
        let keys = "Space on, off   d default   Esc back   at the start: --columns exits,cost,…";
        to.render_widget(Line::from(elided(keys, foot.width)), foot);
    }
}
