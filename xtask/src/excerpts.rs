//! Excerpts of docs/examples in the README and in docs/: each below a comment that names the file.
//!
//! ```text
//! <!-- all of docs/examples/report.txt -->
//! <!-- excerpt of docs/examples/diff.txt -->    keeps its first line and the number of its lines
//! ```

use crate::root;
use anyhow::Context;
use std::fs;
use std::path::PathBuf;

/// What begins such comments, and whether the file is there whole.
const MARKS: [(&str, bool); 2] = [("<!-- all of ", true), ("<!-- excerpt of ", false)];

/// Adds what is not in the files that excerpts name.
pub fn check(findings: &mut Vec<String>) -> anyhow::Result<()> {
    let mut excerpts = 0;
    for page in pages()? {
        let text = fs::read_to_string(&page)?;
        let name = page.strip_prefix(root())?.display().to_string();
        for Excerpt { file, block, .. } in excerpts_of(&text).with_context(|| name.clone())? {
            let whole = fs::read_to_string(root().join(file)).with_context(|| file.to_string())?;
            if block.trim().is_empty() || !tidied(&whole).contains(&tidied(block)) {
                findings.push(format!("{name}: the excerpt of {file} is not in it; `cargo xtask docs` writes it anew"));
            }
            excerpts += 1;
        }
    }
    if excerpts == 0 {
        findings.push("README.md: shows no excerpt of docs/examples".to_string());
    }
    Ok(())
}

/// Has excerpts be what the files are now.
pub fn write() -> anyhow::Result<()> {
    for page in pages()? {
        let text = fs::read_to_string(&page)?;
        let mut anew = text.clone();
        for Excerpt { file, is_whole, block } in excerpts_of(&text)? {
            let whole = tidied(&fs::read_to_string(root().join(file)).with_context(|| file.to_string())?);
            if let Some(now) = anew_of(block, is_whole, &whole) {
                anew = anew.replacen(block, &now, 1);
            }
        }
        if anew != text {
            fs::write(&page, anew)?;
        }
    }
    Ok(())
}

struct Excerpt<'a> {
    file: &'a str,
    is_whole: bool,
    block: &'a str,
}

fn pages() -> anyhow::Result<Vec<PathBuf>> {
    let mut pages = vec![root().join("README.md")];
    for entry in fs::read_dir(root().join("docs"))? {
        pages.push(entry?.path());
    }
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    Ok(pages)
}

fn excerpts_of(text: &str) -> anyhow::Result<Vec<Excerpt<'_>>> {
    let mut excerpts = Vec::new();
    for (mark, is_whole) in MARKS {
        for part in text.split(mark).skip(1) {
            let (file, rest) = part.split_once(" -->").context("a comment that does not end")?;
            let block = rest.split("```").nth(1).and_then(|block| block.split_once('\n')).map_or("", |block| block.1);
            excerpts.push(Excerpt { file, is_whole, block });
        }
    }
    Ok(excerpts)
}

fn tidied(text: &str) -> String {
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// The excerpt as the file has it now; none if nothing in it begins so.
fn anew_of(block: &str, is_whole: bool, whole: &str) -> Option<String> {
    if is_whole {
        return Some(whole.trim_end().to_string() + "\n");
    }
    let lines: Vec<&str> = whole.lines().collect();
    let begin = block.lines().next()?.trim_end();
    let from = lines.iter().position(|line| *line == begin)?;
    let taken = lines.get(from..(from + block.lines().count()).min(lines.len()))?;
    Some(taken.join("\n").trim_end().to_string() + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_are_found_and_follow_their_files() {
        let text = "a\n<!-- excerpt of docs/examples/x.txt -->\n```text\ntwo\nold\n```\nb\n";
        let excerpts = excerpts_of(text).unwrap();
        assert_eq!((excerpts.len(), excerpts[0].file, excerpts[0].block), (1, "docs/examples/x.txt", "two\nold\n"));
        assert_eq!(anew_of("two\nold\n", false, "one\ntwo\nnew\nmore").as_deref(), Some("two\nnew\n"));
        assert_eq!(anew_of("old\n", true, "one\ntwo\nnew").as_deref(), Some("one\ntwo\nnew\n"));
        assert_eq!(anew_of("gone\n", false, "one\n"), None);
        assert!(excerpts_of("<!-- excerpt of x").is_err());
    }
}
