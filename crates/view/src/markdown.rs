//! A page as Markdown, as GitHub and GitLab show it in comments.

use crate::sections::{Page, PageSection, Table};
use std::io::{self, Write};

/// Writes a page: titles as headings, the first one as the result; sentences as a list, tables as tables.
pub fn write_markdown(page: &Page, out: &mut dyn Write) -> io::Result<()> {
    for (at, section) in page.sections.iter().enumerate() {
        let heading = if at == 0 { "###" } else { "####" };
        writeln!(out, "{heading} {}\n", escaped(&section.title))?;
        write_section(section, out)?;
    }
    Ok(())
}

fn write_section(section: &PageSection, out: &mut dyn Write) -> io::Result<()> {
    for sentence in &section.sentences {
        let warning = if sentence.warning { "**warning:** " } else { "" };
        writeln!(out, "- {warning}{}", escaped(&sentence.text))?;
    }
    if !section.sentences.is_empty() {
        writeln!(out)?;
    }
    if let Some(table) = &section.table {
        write_table(table, out)?;
    }
    for note in &section.notes {
        writeln!(out, "{}\n", escaped(note))?;
    }
    Ok(())
}

fn write_table(table: &Table, out: &mut dyn Write) -> io::Result<()> {
    let row = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    writeln!(out, "{}", row(table.columns.iter().map(|column| escaped(&column.title)).collect()))?;
    let rule = |names: bool| if names { "---" } else { "---:" }.to_string();
    writeln!(out, "{}", row(table.columns.iter().map(|column| rule(column.names)).collect()))?;
    for cells in &table.rows {
        writeln!(out, "{}", row(cells.iter().map(|cell| escaped(cell)).collect()))?;
    }
    writeln!(out)
}

/// Without what Markdown or HTML would take for its own: names in recordings are others' words.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '~' | '@' | '&' | '!' => {
                escaped.push('\\');
                escaped.push(letter);
            }
            control if control.is_control() => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sections::{Sentence, column};

    #[test]
    fn a_page_is_headings_lists_and_a_table_and_names_in_it_mark_nothing_up() {
        let sentence = |text: &str, warning| Sentence { text: text.to_string(), warning };
        let table = Table {
            columns: vec![column("reason", true, 0), column("change", false, 0)],
            rows: vec![vec!["a|b_c".to_string(), "+5%".to_string()]],
        };
        let section = PageSection {
            title: "Worse: <b>".to_string(),
            sentences: vec![sentence("lost", true), sentence("line\nbreak", false)],
            table: Some(table),
            notes: vec!["note".to_string()],
            ..PageSection::default()
        };
        let mut out = Vec::new();
        write_markdown(&Page { sections: vec![section] }, &mut out).unwrap();
        let expected = "### Worse: \\<b\\>\n\n- **warning:** lost\n- line break\n\n| reason | change |\n| --- | ---: |\n| a\\|b\\_c | +5% |\n\n\
                        note\n\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
