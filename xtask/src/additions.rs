//! ARCHITECTURE.md's lists below "To add something": what each kind of addition takes, and which of its steps nothing notices if they
//! are forgotten.

/// The heading of the lists.
pub const HEADING: &str = "## To add something";

/// What a step begins with that nothing notices.
const SILENT: char = '⚠';

/// A kind of addition.
#[derive(Debug, PartialEq)]
pub struct Addition {
    /// `An exit code`.
    pub name: String,
    /// The first path of its steps: where it begins.
    pub begin: String,
    /// Its silent steps.
    pub silent: Vec<SilentStep>,
}

/// A step that nothing notices if it is forgotten.
#[derive(Debug, PartialEq)]
pub struct SilentStep {
    pub line: usize,
    /// From its mark to the next one, or to the end of the line.
    pub text: String,
}

/// The lists' lines, with their numbers.
pub fn lines(map: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_inside = false;
    map.lines().enumerate().filter_map(move |(at, line)| {
        if line.starts_with("## ") {
            is_inside = line == HEADING;
        }
        is_inside.then_some((at + 1, line))
    })
}

/// Whether a word in backquotes is a path.
pub fn is_path(word: &str) -> bool {
    word.contains('/') || word.ends_with(".md")
}

/// Reads the lists.
pub fn read(map: &str) -> Vec<Addition> {
    let mut additions: Vec<Addition> = Vec::new();
    for (number, line) in lines(map) {
        if let Some((name, _)) = line.strip_prefix("**").and_then(|rest| rest.split_once("**")) {
            let name = name.trim_end_matches('.').to_string();
            additions.push(Addition { name, begin: String::new(), silent: Vec::new() });
        }
        let Some(addition) = additions.last_mut().filter(|_| line.starts_with("- ")) else { continue };
        if addition.begin.is_empty() {
            let first = line.split('`').skip(1).step_by(2).find(|word| is_path(word));
            addition.begin = first.unwrap_or_default().to_string();
        }
        let silent = line.split(SILENT).skip(1);
        addition.silent.extend(silent.map(|text| SilentStep { line: number, text: text.trim().to_string() }));
    }
    additions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn additions_are_read_with_where_they_begin_and_what_is_silent() {
        let map = format!(
            "# A\n**Not this.** \u{26a0}\n{HEADING}\n\u{26a0} marks.\n\n### B\n\n**A view.** Follows.\n- begin with `struct X`, `a/b.rs`, `c/d.rs`\n\
             - more; ⚠ `fn end`, and ⚠ if so, `e/f.rs` `fn x`\n\n**A flag**\n- begin in `g/h.rs`\n## C\n- ⚠ no"
        );
        let step = |text: &str| SilentStep { line: 10, text: text.to_string() };
        let view = vec![step("`fn end`, and"), step("if so, `e/f.rs` `fn x`")];
        let addition = |name: &str, begin: &str, silent| Addition { name: name.into(), begin: begin.into(), silent };
        assert_eq!(read(&map), [addition("A view", "a/b.rs", view), addition("A flag", "g/h.rs", vec![])]);
    }
}
