//! A page as one HTML file without scripts: what text says, for reports that have no time to draw, as of counts.

use crate::page::{Page, PageSection, Table};
use exitscope_model::encode::html;
use std::io::{self, Write};

/// Everything that a browser needs; colours follow the reader's choice.
const STYLE: &str = "\
:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}\
body{margin:2rem auto;max-width:70rem;padding:0 1rem}\
h1{font-size:1.4rem}h2{font-size:1.15rem;margin-top:2rem}\
.scroll{overflow-x:auto}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
th,td{padding:.15rem .8rem .15rem 0;text-align:right;white-space:nowrap}\
th.name,td.name{text-align:left}\
.warning{font-weight:bold}.note{opacity:.75}";

/// Writes it under this title. Nothing in it is loaded from elsewhere, and nothing runs.
pub fn write_page_html(page: &Page, title: &str, out: &mut dyn Write) -> io::Result<()> {
    let title = html(title);
    writeln!(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">")?;
    writeln!(out, "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">")?;
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    writeln!(out, "<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">")?;
    writeln!(out, "<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>")?;
    page.sections.iter().try_for_each(|section| write_section(section, out))?;
    writeln!(out, "</main>\n</body>\n</html>")
}

fn write_section(section: &PageSection, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<section>\n<h2>{}</h2>", html(&section.title))?;
    for sentence in &section.sentences {
        let class = if sentence.warning { " class=\"warning\"" } else { "" };
        writeln!(out, "<p{class}>{}</p>", html(&sentence.text))?;
    }
    if let Some(table) = &section.table {
        write_table(table, out)?;
    }
    section.notes.iter().try_for_each(|note| writeln!(out, "<p class=\"note\">{}</p>", html(note)))?;
    writeln!(out, "</section>")
}

fn write_table(table: &Table, out: &mut dyn Write) -> io::Result<()> {
    let class = |column: usize| {
        let is_name = table.columns.get(column).is_some_and(|column| column.names);
        if is_name { " class=\"name\"" } else { "" }
    };
    let cells = |tag: &str, cells: &[&str]| -> String {
        cells.iter().enumerate().map(|(at, cell)| format!("<{tag}{}>{}</{tag}>", class(at), html(cell))).collect()
    };
    let titles: Vec<&str> = table.columns.iter().map(|column| column.title.as_ref()).collect();
    writeln!(out, "<div class=\"scroll\"><table>\n<thead><tr>{}</tr></thead>\n<tbody>", cells("th", &titles))?;
    for row in &table.rows {
        let row: Vec<&str> = row.iter().map(String::as_str).collect();
        writeln!(out, "<tr>{}</tr>", cells("td", &row))?;
    }
    writeln!(out, "</tbody></table></div>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{column, plain};

    #[test]
    fn nothing_that_was_pasted_is_markup() {
        let table = Table {
            columns: vec![column("<b>reason", true, 0), column("count", false, 0)],
            rows: vec![vec!["<script>alert(1)</script>".to_string(), "7\" onload=\"x".to_string()]],
        };
        let section = PageSection {
            title: "Exits & more".to_string(),
            sentences: vec![plain("'quoted' <i>".to_string())],
            table: Some(table),
            notes: vec!["<!-- note".to_string()],
            ..PageSection::default()
        };
        let mut out = Vec::new();
        write_page_html(&Page { sections: vec![section] }, "</title><script>", &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for not in ["<script", "<b>", "<i>", "<!-- ", " onload=\"x"] {
            assert!(!text.contains(not), "{not}: {text}");
        }
        assert!(
            text.contains("<td class=\"name\">&lt;script&gt;alert(1)") && text.contains("Exits &amp; more"),
            "{text}"
        );
    }
}
