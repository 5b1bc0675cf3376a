//! The file: the front end's one HTML file, with title and data put in.
//!
//! ```text
//! base64( gzip( length of the JSON (4 bytes, lowest first) │ JSON │ columns ) )
//! ```

use crate::drags::DragsHead;
use crate::over_time::{OverTimeHead, TimeTables};
use crate::polls::Polls;
use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;
use exitscope_view::{Advised, Report};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use std::io::{self, Write};

/// The front end as it was built; empty if it was not.
pub(crate) const TEMPLATE: &str = include_str!(concat!(env!("OUT_DIR"), "/page.html"));

/// Where title and data belong.
pub(crate) const TITLE: &str = "<!--exitscope:title-->";
pub(crate) const DATA: &str = "<!--exitscope:data-->";

/// How hard a page's data is packed, 0 to 9.
pub(crate) const PACKING: Compression = Compression::new(6);

/// Rows of one table of the report that a page holds at most; the most costly come first.
const MOST_ROWS: usize = 2_000;

/// What a page shows.
#[derive(Debug)]
pub struct Contents<'a> {
    /// The report.
    pub report: Report,
    /// Advice, where there can be some.
    pub advice: Option<&'a Advised>,
    /// Halt polling with other limits.
    pub polls: Option<&'a Polls>,
    /// What happened when.
    pub over_time: TimeTables,
    /// Who forced whom out of the guest, when.
    pub drags: Option<DragsHead>,
}

#[derive(Serialize)]
struct Json<'a> {
    #[serde(flatten)]
    head: Head,
    report: &'a Report,
    left_out: usize,
    advice: Option<&'a Advised>,
    polls: Option<&'a Polls>,
    over: OverTimeHead,
    drags: Option<DragsHead>,
}

/// What the data of every page begins with.
#[derive(Serialize)]
pub(crate) struct Head {
    schema: &'static str,
    version: &'static str,
    /// Which of its views the front end shows.
    kind: &'static str,
}

impl Head {
    pub(crate) fn of(kind: &'static str) -> Head {
        Head { schema: "exitscope.page/1", version: env!("CARGO_PKG_VERSION"), kind }
    }
}

/// Whether the front end was there when this program was built.
pub fn is_built() -> bool {
    TEMPLATE.contains(DATA)
}

/// Writes the page of a report. Errors: those of `out`; also if the front end is not there.
pub fn write_page(contents: Contents<'_>, out: &mut dyn Write) -> io::Result<()> {
    let names: Vec<&str> = contents.report.traces.iter().map(|trace| trace.name.as_str()).collect();
    let title = names.join(", ");
    write_file(&title, |to| write_data(contents, PACKING, to), out)
}

/// Writes what the page of a report shows, packed, without the page. Errors: those of `out`.
pub fn write_data(contents: Contents<'_>, packing: Compression, out: &mut dyn Write) -> io::Result<()> {
    let Contents { mut report, advice, polls, over_time, drags } = contents;
    let left_out = report.details.len().saturating_sub(MOST_ROWS);
    report.details.truncate(MOST_ROWS);
    if let Some(pio) = &mut report.pio {
        pio.rows.truncate(MOST_ROWS);
    }
    let TimeTables { head: over, columns } = over_time;
    let json = Json { head: Head::of("report"), report: &report, left_out, advice, polls, over, drags };
    pack(&json, &columns, packing, out)
}

/// Writes the front end with this title and what `data` writes.
pub(crate) fn write_file(
    title: &str,
    data: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let missing = || io::Error::new(io::ErrorKind::Unsupported, "built without the front end of pages");
    let (head, rest) = TEMPLATE.split_once(TITLE).ok_or_else(missing)?;
    let (middle, tail) = rest.split_once(DATA).ok_or_else(missing)?;

    out.write_all(head.as_bytes())?;
    out.write_all(escaped(&format!("exitscope: {title}")).as_bytes())?;
    out.write_all(middle.as_bytes())?;
    {
        let mut text = EncoderWriter::new(&mut *out, &STANDARD);
        data(&mut text)?;
        text.finish()?;
    }
    out.write_all(tail.as_bytes())
}

/// Packs what a page shows.
pub(crate) fn pack(json: &impl Serialize, columns: &[u8], packing: Compression, out: &mut dyn Write) -> io::Result<()> {
    let json = serde_json::to_vec(json)?;
    let mut packed = GzEncoder::new(out, packing);
    packed.write_all(&u32::try_from(json.len()).map_err(io::Error::other)?.to_le_bytes())?;
    packed.write_all(&json)?;
    packed.write_all(columns)?;
    packed.finish()?;
    Ok(())
}

/// Text as HTML shows it.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            _ => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_end_the_title() {
        assert_eq!(escaped("</title><script>\"&"), "&lt;/title&gt;&lt;script&gt;&quot;&amp;");
    }
}
