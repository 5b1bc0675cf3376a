//! A page as text for a terminal.

use crate::page::{Page, PageSection, Table, TableColumn};
use anstyle::{AnsiColor, Style};
use comfy_table::{CellAlignment, Table as Grid, presets};
use exitscope_model::encode::line;
use std::io::{self, Write};

/// How to draw.
#[derive(Clone, Copy, Debug)]
pub struct TerminalStyle {
    /// Columns of the terminal; sentences are broken and tables leave columns out to fit. `None`: no limit.
    pub width: Option<usize>,
    /// Whether to use colours.
    pub colour: bool,
    /// Whether to use characters beyond ASCII where there is a choice.
    pub unicode: bool,
}

/// Columns that most terminals have at least, and people read well.
pub(crate) const MOST_USED_WIDTH: usize = 100;

const TITLE: Style = Style::new().bold();
const WARNING: Style = Style::new().bold().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Yellow)));

/// Writes the page.
pub fn write_page(page: &Page, look: TerminalStyle, out: &mut dyn Write) -> io::Result<()> {
    for (at, section) in page.sections.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        write_section(section, look, out)?;
    }
    Ok(())
}

fn write_section(section: &PageSection, look: TerminalStyle, out: &mut dyn Write) -> io::Result<()> {
    let title = broken(&section.title, look);
    writeln!(out, "{}", if look.colour { format!("{TITLE}{title}{TITLE:#}") } else { title })?;
    for sentence in &section.sentences {
        match sentence.warning {
            true => {
                let lines = broken(&format!("warning: {}", sentence.text), look);
                writeln!(out, "  {}", lines.replacen("warning:", &painted("warning:", WARNING, look), 1))?;
            }
            false => writeln!(out, "  {}", broken(&sentence.text, look))?,
        }
    }
    if let Some(table) = &section.table {
        let hidden = write_table(table, look, out)?;
        if section.say_hidden && !hidden.is_empty() {
            writeln!(out, "  {}", broken(&format!("too wide for the terminal: {}", hidden.join(", ")), look))?;
        }
    }
    for note in &section.notes {
        writeln!(out, "  {}", broken(note, look))?;
    }
    Ok(())
}

pub(crate) fn painted(text: &str, style: Style, look: TerminalStyle) -> String {
    match look.colour {
        true => format!("{style}{}{style:#}", line(text)),
        false => line(text).into_owned(),
    }
}

/// The sentence, broken into lines that fit, of which all but the first are set in.
fn broken(text: &str, look: TerminalStyle) -> String {
    let text = line(text);
    let width = look.width.unwrap_or(usize::MAX).saturating_sub(2);
    let mut lines = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if used == 0 {
            used = length;
        } else if used + 1 + length <= width {
            lines.push(' ');
            used += 1 + length;
        } else {
            lines.push_str("\n    ");
            used = 2 + length;
        }
        lines.push_str(word);
    }
    lines
}

/// Writes the table as far as it fits; gives back the titles of the columns that do not.
fn write_table(table: &Table, look: TerminalStyle, out: &mut dyn Write) -> io::Result<Vec<String>> {
    let (lines, hidden) = written_table(table, look);
    // A head of titles without a word is none.
    lines.iter().skip_while(|line| line.is_empty()).try_for_each(|line| writeln!(out, " {line}"))?;
    Ok(hidden)
}

/// The table's lines as far as it fits, its head first, and the titles of the columns that do not.
pub(crate) fn written_table(table: &Table, look: TerminalStyle) -> (Vec<String>, Vec<String>) {
    // First the columns that say nothing but zero leave, then those of the highest rank.
    let (mut zeros, mut hidden_rank) = (true, u8::MAX);
    loop {
        let grid = grid(table, hidden_rank, zeros);
        let lines: Vec<String> = grid.lines().map(|line| line.trim_end().to_string()).collect();
        let widest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0) + 1;
        let next = table.columns.iter().map(|column| column.rank).filter(|&rank| rank < hidden_rank).max();
        match (look.width, next) {
            (Some(width), _) if widest > width && zeros => zeros = false,
            (Some(width), Some(rank)) if widest > width && rank > 0 => hidden_rank = rank,
            _ => return (lines, hidden(&table.columns, hidden_rank)),
        }
    }
}

/// The titles of columns of this rank and above; a margin is called after the figure that it is of, if that is shown.
fn hidden(columns: &[TableColumn], rank: u8) -> Vec<String> {
    let mut titles = Vec::new();
    let mut shown = None;
    for column in columns {
        match column.title.as_ref() {
            "±" => titles.extend(shown.filter(|_| column.rank >= rank).map(|of| format!("± of {of}"))),
            title if !title.contains(char::is_alphanumeric) => {}
            title if column.rank >= rank => {
                titles.push(title.to_string());
                shown = None;
            }
            title => shown = Some(title),
        }
    }
    titles
}

/// The table without empty columns and those of rank `hidden_rank` and above, and unless `zeros` without figures that
/// are all zero.
fn grid(table: &Table, hidden_rank: u8, zeros: bool) -> Grid {
    let shown: Vec<usize> = (0..table.columns.len())
        .filter(|&at| {
            let column = &table.columns[at];
            let cells = || table.rows.iter().map(|row| row.get(at).map_or("", String::as_str));
            column.rank < hidden_rank
                && !cells().all(|cell| matches!(cell, "" | "-"))
                && (zeros || column.names || !cells().all(|cell| matches!(cell, "" | "-" | "0" | "0%")))
        })
        .collect();
    let mut grid = Grid::new();
    grid.load_style(presets::NOTHING);
    grid.set_header(shown.iter().map(|&at| line(&table.columns[at].title).into_owned()));
    for row in &table.rows {
        grid.add_row(shown.iter().map(|&at| line(row.get(at).map_or("", String::as_str)).into_owned()));
    }
    for (column, &at) in grid.column_iter_mut().zip(&shown) {
        if !table.columns[at].names {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    grid
}
