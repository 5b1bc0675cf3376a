//! Lines of a table of devices, which people write.

use super::{Range, Space, check_name, span};
use exitscope_model::version;

/// The highest port.
const LAST_PORT: u64 = 0xffff;

/// What a line says.
#[derive(Debug)]
pub(super) enum TableLine {
    /// What follows is of this VM; of all, if none.
    Vm(Option<String>),
    /// The guest's kernel is Linux of this version.
    Linux((u32, u32)),
    /// Something is there.
    Range(Range),
}

/// Reads a line, if it is one of a table.
pub(super) fn read(words: &str) -> Result<Option<TableLine>, String> {
    let words = words.trim_start();
    let (first, rest) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
    let rest = rest.trim();
    Ok(Some(match first {
        "vm" if rest == "*" => TableLine::Vm(None),
        "vm" if rest.is_empty() => return Err("`vm` wants a VM's name or number, or `*` for all".to_string()),
        "vm" => TableLine::Vm(Some(rest.to_string())),
        "guest" => TableLine::Linux(linux(rest)?),
        "port" => TableLine::Range(range(Space::Port, rest)?),
        "mmio" => TableLine::Range(range(Space::Memory, rest)?),
        _ if first.starts_with("0x") => TableLine::Range(range(Space::Memory, words)?),
        _ => return Ok(None),
    }))
}

fn linux(words: &str) -> Result<(u32, u32), String> {
    let release = words.strip_prefix("linux").filter(|rest| rest.starts_with(char::is_whitespace));
    let version = release.and_then(|release| version(release.trim()));
    version.ok_or_else(|| format!("`guest {words}` is not like `guest linux 6.8`"))
}

fn range(space: Space, words: &str) -> Result<Range, String> {
    let (range, name) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
    let (from, to) = range.split_once('-').unwrap_or((range, range));
    let number = |text: &str| {
        let hex = text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        hex.ok_or_else(|| format!("{text:?} is no address like 0xfebfb000"))
    };
    let (first, last, name) = (number(from)?, number(to)?, name.trim());
    if first > last {
        return Err(format!("{} ends before it begins", span(first, last)));
    }
    if space == Space::Port && last > LAST_PORT {
        return Err(format!("{}: the last port is {LAST_PORT:#x}", span(first, last)));
    }
    check_name(name).map_err(|why| format!("{}: {why}", span(first, last)))?;
    Ok(Range { space, first, last, name: name.to_string(), line: 0 })
}
