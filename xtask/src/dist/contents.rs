//! What is in packages: a row for each file, and where each package has it.

use crate::root;
use anyhow::{Context, ensure};
use flate2::{Compression, GzBuilder};
use std::fs;
use std::io::Write;
use std::path::{Component, Path};
use std::process::Command;

/// What a package is unpacked into.
#[derive(Clone, Copy, PartialEq)]
pub enum Layout {
    /// A folder of one's own.
    Folder,
    /// The root of a Debian system.
    System,
    /// The root of a container.
    Container,
}

/// Where a file comes from.
enum Origin {
    Program,
    /// A file of the repository.
    Tree(&'static str),
    /// A page of the repository, whose links to other files of it lead to where these are published.
    Page(&'static str),
    /// What the program prints.
    Printed(&'static [&'static str]),
    /// The manual pages that the program writes.
    Manual,
    /// Both licences, as Debian has them.
    Copyright,
    /// Debian's list of releases, which names ours.
    Changelog,
}

/// A file, and its place in each layout; none is not there. A place that ends in `/` is a folder.
struct Row {
    origin: Origin,
    folder: Option<&'static str>,
    system: Option<&'static str>,
    container: Option<&'static str>,
}

const fn row(origin: Origin, folder: Option<&'static str>, system: Option<&'static str>) -> Row {
    Row { origin, folder, system, container: None }
}

const ROWS: &[Row] = &[
    Row {
        origin: Origin::Program,
        folder: Some("exitscope"),
        system: Some("usr/bin/exitscope"),
        container: Some("usr/bin/exitscope"),
    },
    row(Origin::Manual, Some("man/"), Some("usr/share/man/man1/")),
    row(
        Origin::Printed(&["completions", "bash"]),
        Some("completions/exitscope.bash"),
        Some("usr/share/bash-completion/completions/exitscope"),
    ),
    row(
        Origin::Printed(&["completions", "zsh"]),
        Some("completions/_exitscope"),
        Some("usr/share/zsh/vendor-completions/_exitscope"),
    ),
    row(
        Origin::Printed(&["completions", "fish"]),
        Some("completions/exitscope.fish"),
        Some("usr/share/fish/vendor_completions.d/exitscope.fish"),
    ),
    row(
        Origin::Tree("contrib/systemd/exitscope-exporter.service"),
        Some("systemd/exitscope-exporter.service"),
        Some("usr/lib/systemd/system/exitscope-exporter.service"),
    ),
    row(
        Origin::Tree("contrib/debian/tracefs.conf"),
        None,
        Some("usr/lib/systemd/system/sys-kernel-tracing.mount.d/exitscope.conf"),
    ),
    row(Origin::Tree("contrib/mixin/rules.yml"), Some("mixin/rules.yml"), Some("usr/share/exitscope/mixin/rules.yml")),
    row(
        Origin::Tree("contrib/mixin/alerts.yml"),
        Some("mixin/alerts.yml"),
        Some("usr/share/exitscope/mixin/alerts.yml"),
    ),
    row(
        Origin::Tree("contrib/mixin/dashboard.json"),
        Some("mixin/dashboard.json"),
        Some("usr/share/exitscope/mixin/dashboard.json"),
    ),
    row(Origin::Page("docs/operators.md"), Some("operators.md"), Some("usr/share/doc/exitscope/operators.md")),
    row(Origin::Page("SECURITY.md"), Some("SECURITY.md"), Some("usr/share/doc/exitscope/SECURITY.md")),
    row(Origin::Page("CHANGELOG.md"), Some("CHANGELOG.md"), None),
    row(Origin::Changelog, None, Some("usr/share/doc/exitscope/changelog.gz")),
    Row {
        origin: Origin::Tree("LICENSE-APACHE"),
        folder: Some("LICENSE-APACHE"),
        system: None,
        container: Some("licenses/LICENSE-APACHE"),
    },
    Row {
        origin: Origin::Tree("LICENSE-MIT"),
        folder: Some("LICENSE-MIT"),
        system: None,
        container: Some("licenses/LICENSE-MIT"),
    },
    row(Origin::Copyright, None, Some("usr/share/doc/exitscope/copyright")),
    row(Origin::Tree("contrib/debian/lintian-overrides"), None, Some("usr/share/lintian/overrides/exitscope")),
];

/// A file of a package.
pub struct PackagedFile {
    /// Below the package's top.
    pub path: String,
    pub bytes: Vec<u8>,
    pub mode: u32,
}

/// The files of a layout, by their paths.
pub fn files(layout: Layout, program: &Path) -> anyhow::Result<Vec<PackagedFile>> {
    let mut files = Vec::new();
    for row in ROWS {
        let place = match layout {
            Layout::Folder => row.folder,
            Layout::System => row.system,
            Layout::Container => row.container,
        };
        let Some(place) = place else { continue };
        let mode = if matches!(row.origin, Origin::Program) { 0o755 } else { 0o644 };
        let one = |bytes| vec![PackagedFile { path: place.to_string(), bytes, mode }];
        files.extend(match row.origin {
            Origin::Program => one(read(program)?),
            Origin::Tree(path) => one(read(&root().join(path))?),
            Origin::Page(path) => one(page(path, &fs::read_to_string(root().join(path)).context(path)?)?.into_bytes()),
            Origin::Printed(arguments) => one(super::output(Command::new(program).args(arguments))?.stdout),
            Origin::Copyright => one(copyright()?),
            Origin::Changelog => one(compressed(changelog()?.as_bytes())?),
            Origin::Manual => manual(program, place, layout == Layout::System)?,
        });
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| path.display().to_string())
}

/// The text of a page as a package has it. In packages a page stands alone, so each link to another file of the repository becomes that of
/// the release's tag.
fn page(path: &str, text: &str) -> anyhow::Result<String> {
    let below = Path::new(path).parent().context("a page in no folder")?;
    let (mut done, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("](") {
        let (link, behind) = after.split_once(')').with_context(|| format!("{path}: a link without an end"))?;
        let link = match link.starts_with('#') || link.contains("://") {
            true => link.to_string(),
            false => format!("{}/blob/v{}/{}", env!("CARGO_PKG_REPOSITORY"), super::VERSION, joined(below, link)?),
        };
        done += &format!("{before}]({link})");
        rest = behind;
    }
    Ok(done + rest)
}

/// A relative link from a folder of the repository, from its top on.
fn joined(below: &Path, link: &str) -> anyhow::Result<String> {
    let mut path = below.to_path_buf();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => ensure!(path.pop(), "{link} leads out of the repository"),
            Component::CurDir => {}
            part => path.push(part),
        }
    }
    Ok(path.display().to_string())
}

/// As Debian wants manual pages: at the best level, without a name or a time.
pub fn compressed(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut to = GzBuilder::new().write(Vec::new(), Compression::best());
    to.write_all(bytes)?;
    Ok(to.finish()?)
}

fn manual(program: &Path, place: &str, is_compressed: bool) -> anyhow::Result<Vec<PackagedFile>> {
    let folder = tempfile::tempdir()?;
    super::output(Command::new(program).arg("man").arg(folder.path()))?;
    let mut pages = Vec::new();
    for name in super::files_of(folder.path())? {
        let text = read(&folder.path().join(&name))?;
        let (bytes, end) = if is_compressed { (compressed(&text)?, ".gz") } else { (text, "") };
        pages.push(PackagedFile { path: format!("{place}{name}{end}"), bytes, mode: 0o644 });
    }
    Ok(pages)
}

/// In the form of https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/. Debian has the Apache licence; of MIT's there are
/// several.
fn copyright() -> anyhow::Result<Vec<u8>> {
    let mit = fs::read_to_string(root().join("LICENSE-MIT"))?;
    let holder = mit.lines().find(|line| line.starts_with("Copyright")).context("LICENSE-MIT names no holder")?;
    let holder = holder.trim_start_matches("Copyright").trim_start_matches(" (c)").trim();
    let body = mit.split_once(holder).map_or(mit.as_str(), |(_, rest)| rest).trim();
    let indented = |text: &str| -> String {
        let line = |line: &str| if line.is_empty() { " .\n".to_string() } else { format!(" {line}\n") };
        text.lines().map(line).collect()
    };
    let apache = "On Debian systems, the text of this licence is in /usr/share/common-licenses/Apache-2.0.";
    let others = "The program also holds crates of others; sbom.cdx.json, published beside this package, names them and their licences.";
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: exitscope\nSource: {}\nComment: {others}\n\n\
         Files: *\nCopyright: {holder}\nLicense: Expat or Apache-2.0\n\nLicense: Expat\n{}\nLicense: Apache-2.0\n{}",
        env!("CARGO_PKG_REPOSITORY"),
        indented(body),
        indented(apache)
    )
    .into_bytes())
}

fn changelog() -> anyhow::Result<String> {
    let date =
        super::output(Command::new("date").args(["--utc", "-R", "-d"]).arg(format!("@{}", super::source_date()?)))?;
    Ok(format!(
        "exitscope ({}) stable; urgency=medium\n\n  * What changed: {}/blob/main/CHANGELOG.md\n\n -- {}  {}",
        super::VERSION,
        env!("CARGO_PKG_REPOSITORY"),
        super::deb::MAINTAINER,
        String::from_utf8(date.stdout)?
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_file_has_one_place_in_a_layout_and_is_there() {
        for places in
            [ROWS.iter().map(|row| row.folder).collect::<Vec<_>>(), ROWS.iter().map(|row| row.system).collect()]
        {
            let places: Vec<_> = places.into_iter().flatten().collect();
            assert_eq!(places.iter().collect::<BTreeSet<_>>().len(), places.len(), "{places:?}");
            assert!(places.iter().all(|place| !place.starts_with('/')), "{places:?}");
        }
        for row in ROWS {
            if let Origin::Tree(path) | Origin::Page(path) = row.origin {
                assert!(root().join(path).is_file(), "{path}");
            }
        }
    }

    #[test]
    fn links_of_pages_lead_out_of_packages() {
        let text = "[a](b.md#c), [d](../SECURITY.md), [e](https://f.example/g), [h](#i)\n";
        let at = format!("{}/blob/v{}", env!("CARGO_PKG_REPOSITORY"), super::super::VERSION);
        let wanted = format!("[a]({at}/docs/b.md#c), [d]({at}/SECURITY.md), [e](https://f.example/g), [h](#i)\n");
        assert_eq!(page("docs/operators.md", text).unwrap(), wanted);
        assert!(page("SECURITY.md", "[x](../y)").is_err(), "nothing of the repository");
        for row in ROWS {
            let Origin::Page(path) = row.origin else { continue };
            let text = page(path, &fs::read_to_string(root().join(path)).unwrap()).unwrap();
            let begin = format!("]({at}/");
            for link in text.split(&begin).skip(1) {
                let target = link.split([')', '#']).next().unwrap();
                assert!(root().join(target).exists(), "{path} links {target}");
            }
        }
    }

    #[test]
    fn copyright_names_the_holder_and_keeps_the_licence_whole() {
        let text = String::from_utf8(copyright().unwrap()).unwrap();
        assert!(text.contains("Copyright: 2026 The exitscope authors\n"), "{text}");
        let mit = fs::read_to_string(root().join("LICENSE-MIT")).unwrap();
        let last = mit.lines().rfind(|line| !line.is_empty()).unwrap();
        assert!(text.contains(&format!(" {last}\n")), "{text}");
        assert!(!text.contains("\n\n "), "an empty line ends a paragraph: {text}");
    }

    #[test]
    fn what_is_compressed_has_no_time() {
        assert_eq!(compressed(b"a").unwrap()[4..8], [0; 4]);
    }
}
