//! How text is drawn on standard output.

use exitscope_view::TerminalStyle;
use std::io::IsTerminal;

/// The width, colours and characters of standard output.
pub fn terminal_style() -> TerminalStyle {
    let stdout = std::io::stdout();
    let terminal = stdout.is_terminal();
    let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(|&columns| columns > 0);
    let width = asked.or_else(|| terminal_size::terminal_size_of(&stdout).map(|size| usize::from(size.0.0)));
    let colour = terminal && anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never;
    TerminalStyle { width, colour, unicode: is_unicode() }
}

/// Whether the locale's characters are UTF-8, as setlocale(3) finds it out.
fn is_unicode() -> bool {
    let named = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|of| !of.is_empty()));
    named.is_some_and(|name| name.to_ascii_lowercase().replace('-', "").contains("utf8"))
}
