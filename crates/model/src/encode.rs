//! What comes from traces, names and files, made fit for where it is shown. Whoever names a guest, a thread or a file says what
//! is in it: a terminal's commands, a spreadsheet's formulas, a page's elements.
//!
//! | where | what would act | what becomes of it |
//! | --- | --- | --- |
//! | terminal, messages | control characters, and those that turn or hide text | U+FFFD |
//! | CSV | a formula, which begins with `=`, `+`, `-`, `@`, a tab or a return; what acts on a terminal | `'` before it; U+FFFD |
//! | collapsed stacks | `;`, the end of a line | `:`, U+FFFD |
//! | HTML | `&`, `<`, `>`, `"`, `'` | references |

use std::borrow::Cow;

/// Stands for what may not be shown.
const NOT_SHOWN: char = '\u{fffd}';

/// Whether it acts on a terminal, instead of being shown there: control characters (C0, DEL, C1), line and paragraph separators,
/// marks, embeddings, overrides and isolates of direction (UAX #9), and what takes no room.
const fn acts(c: char) -> bool {
    matches!(
        c,
        '\0'..='\x1f'
            | '\x7f'..='\u{9f}'
            | '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
    )
}

fn replaced(text: &str, is_bad: impl Fn(char) -> bool, by: impl Fn(char) -> char) -> Cow<'_, str> {
    match text.contains(&is_bad) {
        true => Cow::Owned(text.chars().map(|c| if is_bad(c) { by(c) } else { c }).collect()),
        false => Cow::Borrowed(text),
    }
}

/// As a terminal shows it, in one line.
pub fn line(text: &str) -> Cow<'_, str> {
    replaced(text, acts, |_| NOT_SHOWN)
}

/// The same of a message of several lines, of which all but the first are set in: none passes for one that begins.
pub fn message(text: &str) -> String {
    text.trim_end_matches('\n').split('\n').map(line).collect::<Vec<_>>().join("\n    ")
}

/// As a field of CSV, which no spreadsheet takes for a formula, and no terminal for a command. Numbers are left as they are.
pub fn csv_field(text: &str) -> Cow<'_, str> {
    let shown = line(text);
    match text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text != "-" && text.parse::<f64>().is_err() {
        true => Cow::Owned(format!("'{shown}")),
        false => shown,
    }
}

/// As a frame of a collapsed stack: nothing in it ends the frame, or the line.
pub fn frame(text: &str) -> Cow<'_, str> {
    replaced(text, |c| c == ';' || acts(c), |c| if c == ';' { ':' } else { NOT_SHOWN })
}

/// As HTML shows it, in text and in values of attributes.
pub fn html(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            _ => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_is_shown_as_something_that_does_not() {
        let cases = [
            ("qemu-system-x86", "qemu-system-x86"),
            ("CPU 0/KVM \u{e9}\u{4e2d}", "CPU 0/KVM \u{e9}\u{4e2d}"),
            ("a\x1b[2Jb", "a\u{fffd}[2Jb"),
            ("a\u{9b}31mb", "a\u{fffd}31mb"),
            ("a\u{202e}b\u{2066}c\u{200f}", "a\u{fffd}b\u{fffd}c\u{fffd}"),
            ("a\nb\r\x7f", "a\u{fffd}b\u{fffd}\u{fffd}"),
        ];
        for (text, shown) in cases {
            assert_eq!(line(text), shown);
        }
        assert_eq!(message("bad\nexitscope: fine\x07\n"), "bad\n    exitscope: fine\u{fffd}");
    }

    #[test]
    fn no_field_is_a_formula_and_numbers_stay_numbers() {
        let cases = [
            ("=cmd()", "'=cmd()"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("+1+1", "'+1+1"),
            ("-2+3", "'-2+3"),
            ("\t=1", "'\u{fffd}=1"),
            ("a\x1b[2J\x07b\u{202e}c", "a\u{fffd}[2J\u{fffd}b\u{fffd}c"),
            ("=\x1b", "'=\u{fffd}"),
            ("-12.5", "-12.5"),
            ("+3", "+3"),
            ("-", "-"),
            ("io", "io"),
            ("", ""),
        ];
        for (text, field) in cases {
            assert_eq!(csv_field(text), field);
        }
    }

    #[test]
    fn frames_and_elements_hold_nothing_that_ends_them() {
        assert_eq!(frame("a;b\nc d"), "a:b\u{fffd}c d");
        assert_eq!(html("</title><script>'\"&"), "&lt;/title&gt;&lt;script&gt;&#39;&quot;&amp;");
    }
}
