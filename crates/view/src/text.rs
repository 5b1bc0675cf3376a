//! A page as text for a terminal.

use crate::page::{Page, Section, Table};
use anstyle::{AnsiColor, Style};
use comfy_table::{CellAlignment, Table as Grid, presets};
use std::io::{self, Write};

/// How to draw.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Columns of the terminal; tables leave columns out to fit. `None`: no limit.
    pub width: Option<usize>,
    /// Whether to use colours.
    pub colour: bool,
}

const TITLE: Style = Style::new().bold();
const WARNING: Style = Style::new().bold().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Yellow)));

/// Writes the page.
pub fn write_page(page: &Page, look: Look, out: &mut dyn Write) -> io::Result<()> {
    for (at, section) in page.sections.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        write_section(section, look, out)?;
    }
    Ok(())
}

fn write_section(section: &Section, look: Look, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", painted(&section.title, TITLE, look))?;
    for sentence in &section.sentences {
        match sentence.warning {
            true => writeln!(out, "  {} {}", painted("warning:", WARNING, look), clean(&sentence.text))?,
            false => writeln!(out, "  {}", clean(&sentence.text))?,
        }
    }
    if let Some(table) = &section.table {
        write_table(table, look, out)?;
    }
    for note in &section.notes {
        writeln!(out, "  {}", clean(note))?;
    }
    Ok(())
}

fn painted(text: &str, style: Style, look: Look) -> String {
    match look.colour {
        true => format!("{style}{}{style:#}", clean(text)),
        false => clean(text),
    }
}

/// Names come from traces: nothing in them may move the cursor.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn write_table(table: &Table, look: Look, out: &mut dyn Write) -> io::Result<()> {
    let mut hidden_rank = u8::MAX;
    loop {
        let grid = grid(table, hidden_rank);
        let lines: Vec<String> = grid.lines().map(|line| line.trim_end().to_string()).collect();
        let widest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0) + 1;
        let next = table.columns.iter().map(|column| column.rank).filter(|&rank| rank < hidden_rank).max();
        match (look.width, next) {
            (Some(width), Some(rank)) if widest > width && rank > 0 => hidden_rank = rank,
            _ => {
                for line in lines {
                    writeln!(out, " {line}")?;
                }
                return Ok(());
            }
        }
    }
}

/// The table without the columns of rank `hidden_rank` and above.
fn grid(table: &Table, hidden_rank: u8) -> Grid {
    let empty =
        |at: usize| table.rows.iter().all(|row| matches!(row.get(at).map(String::as_str), None | Some("" | "-")));
    let shown: Vec<usize> =
        (0..table.columns.len()).filter(|&at| table.columns[at].rank < hidden_rank && !empty(at)).collect();
    let mut grid = Grid::new();
    grid.load_style(presets::NOTHING);
    grid.set_header(shown.iter().map(|&at| table.columns[at].title));
    for row in &table.rows {
        grid.add_row(shown.iter().map(|&at| clean(row.get(at).map_or("", String::as_str))));
    }
    for (column, &at) in grid.column_iter_mut().zip(&shown) {
        if !table.columns[at].names {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    grid
}
