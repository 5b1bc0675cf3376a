//! The file: the front end's one HTML file, with title and data put in.
//!
//! ```text
//! base64( gzip( length of the JSON (4 bytes, lowest first) │ JSON │ columns ) )
//! ```

use crate::forced_out_timeline::ForcedOutColumns;
use crate::poll_limits::PollLimitTable;
use crate::result_page::ResultPage;
use crate::timelines::{OverTimeHead, TimelineTables};
use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;
use exitscope_model::encode;
use exitscope_view::{AdviceReport, Palette, Report, mail_text};
use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::{self, Write};
use std::panic::resume_unwind;
use std::thread;

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
pub struct PageContents<'a> {
    /// The report.
    pub report: Report,
    /// Advice, where there can be some.
    pub advice: Option<&'a AdviceReport>,
    /// Halt polling with other limits.
    pub polls: Option<&'a PollLimitTable>,
    /// What happened when.
    pub over_time: TimelineTables,
    /// Who forced whom out of the guest, when.
    pub forced_out: Option<ForcedOutColumns>,
}

/// What the front end is given as JSON. Lengths are in nanoseconds.
#[derive(Serialize, JsonSchema)]
pub struct PageData<'a> {
    /// Name and version of this layout.
    schema: &'static str,
    /// The version of exitscope that made the page.
    version: &'static str,
    /// What parts of time, reasons and phases are filled with.
    palette: Palette,
    #[serde(flatten)]
    shown: PageContent<'a>,
}

/// What is shown; its `kind` says which of its views the front end shows.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum PageContent<'a> {
    Report(&'a ReportPage<'a>),
    Other(&'a ResultPage<'a>),
}

impl<'a> From<PageContent<'a>> for PageData<'a> {
    fn from(shown: PageContent<'a>) -> PageData<'a> {
        PageData { schema: "exitscope.page/1", version: env!("CARGO_PKG_VERSION"), palette: Palette::new(), shown }
    }
}

/// A report, and what of it is shown over time.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ReportPage<'a> {
    #[schemars(extend("const" = "report"))]
    kind: &'static str,
    report: &'a Report,
    /// How many of the report's `details` a page does not hold.
    left_out: usize,
    advice: Option<&'a AdviceReport>,
    /// The report as plain text, as `report --mail` prints it.
    mail: String,
    polls: Option<&'a PollLimitTable>,
    timelines: OverTimeHead,
    forced_out: Option<ForcedOutColumns>,
}

/// Whether the front end was there when this program was built.
pub fn is_built() -> bool {
    TEMPLATE.contains(DATA)
}

/// Writes the page of a report. Errors: those of `out`; also if the front end is not there.
pub fn write_page(contents: PageContents<'_>, out: &mut dyn Write) -> io::Result<()> {
    let names: Vec<&str> = contents.report.traces.iter().map(|trace| trace.name.as_str()).collect();
    let title = names.join(", ");
    write_file(&title, |to| write_data(contents, PACKING, to), out)
}

/// Writes what the page of a report shows, packed, without the page. Errors: those of `out`.
pub fn write_data(contents: PageContents<'_>, packing: Compression, out: &mut dyn Write) -> io::Result<()> {
    let PageContents { mut report, advice, polls, over_time, forced_out } = contents;
    let names: Vec<&str> = report.traces.iter().map(|trace| trace.name.as_str()).collect();
    let mail = mail_text(&report, advice, &names.join(" "));
    let left_out = report.subjects.len().saturating_sub(MOST_ROWS);
    report.subjects.truncate(MOST_ROWS);
    if let Some(pio) = &mut report.pio {
        pio.rows.truncate(MOST_ROWS);
    }
    let TimelineTables { head: over, columns } = over_time;
    let shown =
        ReportPage { kind: "report", report: &report, left_out, advice, mail, polls, timelines: over, forced_out };
    pack(&PageData::from(PageContent::Report(&shown)), &columns, packing, out)
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
    out.write_all(encode::html(&format!("exitscope: {title}")).as_bytes())?;
    out.write_all(middle.as_bytes())?;
    {
        let mut text = EncoderWriter::new(&mut *out, &STANDARD);
        data(&mut text)?;
        text.finish()?;
    }
    out.write_all(tail.as_bytes())
}

/// Packs what a page shows with gzip, in two halves at once.
pub(crate) fn pack(json: &impl Serialize, columns: &[u8], packing: Compression, out: &mut dyn Write) -> io::Result<()> {
    let json = serde_json::to_vec(json)?;
    let len = u32::try_from(json.len()).map_err(io::Error::other)?.to_le_bytes();
    let all = [&len, &json[..], columns].concat();
    let (first, second) = all.split_at(all.len() / 2);
    let (first, second) = thread::scope(|scope| {
        let second = scope.spawn(|| deflated(second, packing, FlushCompress::Finish));
        let first = deflated(first, packing, FlushCompress::Sync);
        (first, second.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    let ((first, mut sum), (second, of_second)) = (first?, second?);
    sum.combine(&of_second);
    // RFC 1952: deflated, no name, no time, an unknown system; the sum and the length modulo 2^32 at the end.
    out.write_all(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255])?;
    out.write_all(&first)?;
    out.write_all(&second)?;
    out.write_all(&sum.sum().to_le_bytes())?;
    out.write_all(&sum.amount().to_le_bytes())
}

/// A part of a deflated stream, which ends with it or goes on, and the sum of what is in it.
fn deflated(bytes: &[u8], packing: Compression, flush: FlushCompress) -> io::Result<(Vec<u8>, Crc)> {
    let mut deflate = Compress::new(packing, false);
    let mut packed = Vec::new();
    loop {
        packed.reserve(64 << 10);
        let rest = &bytes[deflate.total_in() as usize..];
        let status = deflate.compress_vec(rest, &mut packed, flush).map_err(io::Error::other)?;
        let is_over = match flush {
            FlushCompress::Finish => status == Status::StreamEnd,
            // What was flushed is all there if there is room left.
            _ => deflate.total_in() == bytes.len() as u64 && packed.len() < packed.capacity(),
        };
        if is_over {
            break;
        }
    }
    let mut sum = Crc::new();
    sum.update(bytes);
    Ok((packed, sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_make_one_whole() {
        let mut state = 1u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        for size in [0, 1, 1000, 64 << 10, 1 << 20] {
            let columns: Vec<u8> = (0..size).map(|at| if at % 3 == 0 { noise() } else { 7 }).collect();
            let mut packed = Vec::new();
            pack(&"a name", &columns, PACKING, &mut packed).unwrap();
            // Of one member only, as browsers want it.
            let mut all = Vec::new();
            let mut unpacked = flate2::bufread::GzDecoder::new(&packed[..]);
            std::io::Read::read_to_end(&mut unpacked, &mut all).unwrap();
            assert!(unpacked.into_inner().is_empty());
            assert_eq!(all, [&8u32.to_le_bytes()[..], b"\"a name\"", &columns].concat(), "{size}");
        }
    }
}
